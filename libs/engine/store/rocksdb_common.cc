#include "libs/engine/store/rocksdb_common.h"

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdarg>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/status.h"

// Replaces RocksDB's own function, which its library calls through the dynamic linker too. Debian builds
// RocksDB for any amd64, so its version goes by tables, which took a twelfth of a shard's CPU time where
// pushes are durable. Where a loader does not find this one the result is the same.
namespace rocksdb::crc32c {
uint32_t Extend(uint32_t crc, const char* data, size_t n) {
  return paceline::ExtendCrc32c(crc, {data, n});
}
}  // namespace rocksdb::crc32c

namespace paceline::engine {
namespace {

class StaysFailed final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* by_itself) override {
    *by_itself = false;
  }
};

class NoLog final : public rocksdb::Logger {
 public:
  NoLog() : Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// RocksDB has no status code for a lock that another process holds.
bool IsTaken(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() && (absl::StrContains(text, "lock hold by current process") ||
                                absl::StrContains(text, "Resource temporarily unavailable"));
}

}  // namespace

void StopAtErrors(rocksdb::DBOptions& options) {
  options.paranoid_checks = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.listeners.push_back(std::make_shared<StaysFailed>());
  options.max_bgerror_resume_count = 0;
  options.info_log = std::make_shared<NoLog>();
}

rocksdb::ReadOptions ReadOnce() {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  return options;
}

absl::Status Translated(const rocksdb::Status& status, absl::string_view whose, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(whose, ": ", what, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace())
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room on the disk"));
  return absl::UnavailableError(message);
}

absl::StatusOr<std::optional<std::string>> ReadOne(rocksdb::Env* env, const std::string& dir,
                                                   absl::string_view whose, absl::string_view key) {
  rocksdb::Options options;
  StopAtErrors(options);
  options.env = env;
  // All families must be named: RocksDB ends the process when the log mentions a family that was not.
  std::vector<std::string> names;
  rocksdb::Status opened = rocksdb::DB::ListColumnFamilies(options, dir, &names);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  if (opened.ok()) opened = rocksdb::DB::OpenForReadOnly(options, dir, families, &handles, &db);
  if (!opened.ok()) return Translated(opened, whose, absl::StrCat("opening ", dir));
  const std::unique_ptr<rocksdb::DB> owned(db);
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  std::string value;
  const rocksdb::Status read =
      db->Get(rocksdb::ReadOptions(), rocksdb::Slice(key.data(), key.size()), &value);
  if (read.IsNotFound()) return std::optional<std::string>();
  ABSL_RETURN_IF_ERROR(Translated(read, whose, absl::StrCat("reading ", dir)));
  return std::optional<std::string>(std::move(value));
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(rocksdb::Env* env, const std::string& dir,
                                                             absl::string_view whose,
                                                             absl::string_view user) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(whose, ": cannot create directory ", dir, ": ",
                                               error.message(), "; choose another one"));
  }
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status status = env->LockFile(dir + "/IN_USE", &lock);
  if (IsTaken(status)) {
    return absl::FailedPreconditionError(absl::StrCat(
        whose, ": ", dir, " is in use by another ", user, "; exactly one may run on it: stop that one, ",
        "or choose another --data-dir (", status.ToString(), ")"));
  }
  if (!status.ok()) return Translated(status, whose, absl::StrCat("opening ", dir));
  return absl::WrapUnique(new FolderLock(env, lock));
}

FolderLock::~FolderLock() {
  env_->UnlockFile(lock_).PermitUncheckedError();
}

}  // namespace paceline::engine
