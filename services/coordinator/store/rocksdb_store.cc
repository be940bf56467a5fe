#include "services/coordinator/store/rocksdb_store.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/engine/store/marked_folder.h"
#include "libs/engine/store/rocksdb_common.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

// Layout, besides the folder's mark (marked_folder.h): "!format" holds the format's number, "!commits" the
// number of commits so far, and "k" + key an entry: its version (u64, little-endian), then its value.
namespace paceline::coordinator {
namespace {

constexpr absl::string_view kFormatKey = "!format";
constexpr absl::string_view kCommitsKey = "!commits";
constexpr uint64_t kFormat = 2;  // format 1 had no mark, and is otherwise the same
constexpr char kRemedy[] =
    "Put the file back if there is an unchanged copy of it. Otherwise begin a cluster anew, with empty "
    "folders for "
    "the coordinator and the shards, and restore jobs from their snapshots";
constexpr size_t kVersionBytes = 8;

rocksdb::Slice ToSlice(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

std::string EncodeU64(uint64_t value) {
  std::string bytes(kVersionBytes, '\0');
  StoreU64(value, bytes.data());
  return bytes;
}

absl::StatusOr<uint64_t> DecodeU64(absl::string_view stored_key, absl::string_view bytes) {
  if (bytes.size() == kVersionBytes) return LoadU64(bytes.data());
  return absl::DataLossError(
      absl::StrCat("store: ", stored_key, " has ", bytes.size(), " bytes; expected ", kVersionBytes));
}

std::string StoredKey(absl::string_view key) {
  return absl::StrCat("k", key);
}

absl::Status Translated(const rocksdb::Status& status, absl::string_view what) {
  return engine::Translated(status, "store", what);
}

absl::StatusOr<Entry> DecodeEntry(absl::string_view key, absl::string_view bytes) {
  if (bytes.size() < kVersionBytes) {
    return absl::DataLossError(absl::StrCat("store: the entry of key ", key, " has ", bytes.size(),
                                            " bytes; expected at least ", kVersionBytes));
  }
  return Entry{.value = std::string(bytes.substr(kVersionBytes)), .version = LoadU64(bytes.data())};
}

// `create`: create the database if there is none.
rocksdb::Options DbOptions(rocksdb::Env* env, bool create) {
  rocksdb::Options options;
  engine::StopAtErrors(options);
  options.env = env;
  options.create_if_missing = create;
  // The content is small, so RocksDB's buffers in memory and its logs on disk are kept small too.
  options.write_buffer_size = size_t{4} << 20;
  options.max_total_wal_size = uint64_t{16} << 20;
  options.max_background_jobs = 1;
  return options;
}

class RocksDbStore final : public Store {
 public:
  RocksDbStore(std::string dir, rocksdb::Env* env) : dir_(std::move(dir)), env_(env) {}

  // Checks the folder, reads or writes the format's number, and reads the number of commits.
  absl::Status Start() {
    ABSL_ASSIGN_OR_RETURN(lock_, engine::FolderLock::Take(env_, dir_, "store", "coordinator"));
    const auto read_format = [this](rocksdb::Env* env) -> absl::StatusOr<uint64_t> {
      ABSL_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                            engine::ReadOne(env, dir_, "store", kFormatKey));
      return bytes.has_value() ? DecodeU64(kFormatKey, *bytes) : 0;
    };
    ABSL_ASSIGN_OR_RETURN(
        folder_, engine::MarkedFolder::Open(env_->GetFileSystem(), dir_,
                                            {.whose = "store", .remedy = kRemedy}, kFormat, read_format));
    ABSL_RETURN_IF_ERROR(Open(/*create=*/true));
    // The store is small, so all of it is verified: the start does not read all of it otherwise.
    ABSL_RETURN_IF_ERROR(folder_->Named(Translated(db_->VerifyChecksum(), absl::StrCat("reading ", dir_))));
    ABSL_ASSIGN_OR_RETURN(commits_, Number(kCommitsKey));
    ABSL_RETURN_IF_ERROR(folder_->CheckPosition(commits_));
    return CheckFormat();
  }

  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override {
    ABSL_RETURN_IF_ERROR(GoOn());
    std::string bytes;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), StoredKey(key), &bytes);
    if (status.IsNotFound()) return std::optional<Entry>();
    ABSL_RETURN_IF_ERROR(Translated(status, absl::StrCat("reading ", key)));
    ABSL_ASSIGN_OR_RETURN(Entry entry, DecodeEntry(key, bytes));
    return std::optional<Entry>(std::move(entry));
  }

  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
    ABSL_RETURN_IF_ERROR(GoOn());
    std::vector<std::pair<std::string, Entry>> found;
    const std::string stored_prefix = StoredKey(prefix);
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
    for (it->Seek(stored_prefix); it->Valid(); it->Next()) {
      const absl::string_view stored(it->key().data(), it->key().size());
      if (!absl::StartsWith(stored, stored_prefix)) break;
      const std::string key(stored.substr(1));
      ABSL_ASSIGN_OR_RETURN(Entry entry, DecodeEntry(key, {it->value().data(), it->value().size()}));
      found.emplace_back(key, std::move(entry));
    }
    ABSL_RETURN_IF_ERROR(Translated(it->status(), absl::StrCat("listing ", prefix)));
    return found;
  }

  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override {
    ABSL_RETURN_IF_ERROR(CheckCommit(conditions, writes));
    ABSL_RETURN_IF_ERROR(GoOn());
    for (const Condition& condition : conditions) {
      ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> stored, Get(condition.key));
      ABSL_RETURN_IF_ERROR(CheckCondition(condition, stored));
    }
    // Counted even if the write fails: it may have reached the disk after all, and no version is used twice.
    commits_ += 1;
    const std::string version = EncodeU64(commits_);
    rocksdb::WriteBatch batch;
    batch.Put(ToSlice(kCommitsKey), version);
    for (const Write& write : writes) {
      if (write.value.has_value()) {
        batch.Put(StoredKey(write.key), version + *write.value);
      } else {
        batch.Delete(StoredKey(write.key));
      }
    }
    return WriteSynced(batch);
  }

 private:
  absl::Status CheckFormat() {
    ABSL_ASSIGN_OR_RETURN(const uint64_t format, Number(kFormatKey));
    if (format == kFormat) return absl::OkStatus();
    if (format > kFormat) {
      return absl::FailedPreconditionError(absl::StrCat("store: ", db_->GetName(), " has format ", format,
                                                        "; this release knows up to ", kFormat,
                                                        ": run the release that wrote it"));
    }
    rocksdb::WriteBatch batch;
    batch.Put(ToSlice(kFormatKey), EncodeU64(kFormat));
    return WriteSynced(batch);
  }

  absl::Status Open(bool create) const {
    ABSL_RETURN_IF_ERROR(folder_->Check());
    rocksdb::DB* db = nullptr;
    ABSL_RETURN_IF_ERROR(folder_->Named(Translated(
        rocksdb::DB::Open(DbOptions(folder_->env(), create), dir_, &db), absl::StrCat("opening ", dir_))));
    db_.reset(db);
    return absl::OkStatus();
  }

  // After an error, opens the database anew, which shows whether the failed write took effect.
  absl::Status GoOn() const {
    if (db_ != nullptr && !failed_) return absl::OkStatus();
    db_.reset();
    ABSL_RETURN_IF_ERROR(Open(/*create=*/false));
    failed_ = false;
    return absl::OkStatus();
  }

  absl::Status WriteSynced(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status written = db_->Write(options, &batch);
    failed_ = !written.ok();
    ABSL_RETURN_IF_ERROR(Translated(written, "writing"));
    return folder_->Reached(commits_);
  }

  // 0 if it was never written.
  absl::StatusOr<uint64_t> Number(absl::string_view stored_key) const {
    std::string bytes;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(stored_key), &bytes);
    if (status.IsNotFound()) return 0;
    ABSL_RETURN_IF_ERROR(Translated(status, absl::StrCat("reading ", stored_key)));
    return DecodeU64(stored_key, bytes);
  }

  const std::string dir_;
  rocksdb::Env* const env_;
  std::unique_ptr<engine::FolderLock> lock_;
  std::unique_ptr<engine::MarkedFolder> folder_;
  mutable std::unique_ptr<rocksdb::DB> db_;  // nullptr: opening it anew has failed so far
  mutable bool failed_ = false;
  uint64_t commits_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir, rocksdb::Env* env) {
  auto store = std::make_unique<RocksDbStore>(dir, env != nullptr ? env : rocksdb::Env::Default());
  ABSL_RETURN_IF_ERROR(store->Start());
  return store;
}

}  // namespace paceline::coordinator
