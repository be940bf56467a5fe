#include "services/coordinator/store/rocksdb_store.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

// Layout: "!format" holds the format's number, "!commits" how many commits there were, and "k" + key an
// entry: its version (u64, little-endian), then its value.
namespace paceline::coordinator {
namespace {

constexpr absl::string_view kFormatKey = "!format";
constexpr absl::string_view kCommitsKey = "!commits";
constexpr uint64_t kFormat = 1;
constexpr size_t kVersionBytes = 8;

rocksdb::Slice ToSlice(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

std::string EncodeU64(uint64_t value) {
  std::string bytes(kVersionBytes, '\0');
  StoreU64(value, bytes.data());
  return bytes;
}

std::string StoredKey(absl::string_view key) {
  return absl::StrCat("k", key);
}

absl::Status Translated(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat("store: ", what, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace())
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room on the disk"));
  return absl::UnavailableError(message);
}

absl::StatusOr<Entry> DecodeEntry(absl::string_view key, absl::string_view bytes) {
  if (bytes.size() < kVersionBytes) {
    return absl::DataLossError(absl::StrCat("store: the entry of key ", key, " has ", bytes.size(),
                                            " bytes; expected at least ", kVersionBytes));
  }
  return Entry{.value = std::string(bytes.substr(kVersionBytes)), .version = LoadU64(bytes.data())};
}

rocksdb::Options DbOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // The contents are small: keep what RocksDB holds in memory and on disk small too.
  options.write_buffer_size = size_t{4} << 20;
  options.max_total_wal_size = uint64_t{16} << 20;
  options.keep_log_file_num = 2;
  options.max_log_file_size = size_t{1} << 20;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.max_background_jobs = 1;
  return options;
}

class RocksDbStore final : public Store {
 public:
  explicit RocksDbStore(std::unique_ptr<rocksdb::DB> db) : db_(std::move(db)) {}

  // Reads or writes the format's number, and reads how many commits there were.
  absl::Status Start() {
    ABSL_ASSIGN_OR_RETURN(const uint64_t format, Number(kFormatKey));
    ABSL_ASSIGN_OR_RETURN(commits_, Number(kCommitsKey));
    if (format == kFormat) return absl::OkStatus();
    if (format != 0) {
      return absl::FailedPreconditionError(absl::StrCat("store: ", db_->GetName(), " has format ", format,
                                                        "; this release knows ", kFormat,
                                                        ": run the release that wrote it"));
    }
    rocksdb::WriteBatch batch;
    batch.Put(ToSlice(kFormatKey), EncodeU64(kFormat));
    return WriteSynced(batch);
  }

  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override {
    std::string bytes;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), StoredKey(key), &bytes);
    if (status.IsNotFound()) return std::optional<Entry>();
    ABSL_RETURN_IF_ERROR(Translated(status, absl::StrCat("reading ", key)));
    ABSL_ASSIGN_OR_RETURN(Entry entry, DecodeEntry(key, bytes));
    return std::optional<Entry>(std::move(entry));
  }

  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
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
    for (const Condition& condition : conditions) {
      ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> stored, Get(condition.key));
      ABSL_RETURN_IF_ERROR(CheckCondition(condition, stored));
    }
    // Taken even if the write fails: it may have reached the disk after all, and no version is used twice.
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
  absl::Status WriteSynced(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions options;
    options.sync = true;
    return Translated(db_->Write(options, &batch), "writing");
  }

  // 0 if it was never written.
  absl::StatusOr<uint64_t> Number(absl::string_view stored_key) const {
    std::string bytes;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(stored_key), &bytes);
    if (status.IsNotFound()) return 0;
    ABSL_RETURN_IF_ERROR(Translated(status, absl::StrCat("reading ", stored_key)));
    if (bytes.size() == kVersionBytes) return LoadU64(bytes.data());
    return absl::DataLossError(
        absl::StrCat("store: ", stored_key, " has ", bytes.size(), " bytes; expected ", kVersionBytes));
  }

  std::unique_ptr<rocksdb::DB> db_;
  uint64_t commits_ = 0;
};

// RocksDB has no code of its own for a lock that somebody else holds.
bool IsLocked(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() && (absl::StrContains(text, "lock hold by current process") ||
                                absl::StrContains(text, "/LOCK: Resource temporarily unavailable"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("store: cannot create directory ", dir, ": ", error.message(), "; choose another one"));
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DbOptions(), dir, &db);
  if (IsLocked(status)) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", dir,
                     " is in use by another coordinator; exactly one may run on it: stop that one, "
                     "or choose another --data-dir (",
                     status.ToString(), ")"));
  }
  ABSL_RETURN_IF_ERROR(Translated(status, absl::StrCat("opening ", dir)));
  auto store = std::make_unique<RocksDbStore>(std::unique_ptr<rocksdb::DB>(db));
  ABSL_RETURN_IF_ERROR(store->Start());
  return store;
}

}  // namespace paceline::coordinator
