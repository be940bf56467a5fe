#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "libs/world/random.h"

// A disk below RocksDB that fills up, fails, and loses unsynced bytes with the power.
namespace paceline::engine::testing {

// The faults that its files meet, and how much of each file is safe. Must outlive the files. Thread-safe.
class Platter {
 public:
  enum class Fault {
    kNone,
    kFull,               // a write takes half of its bytes, then ENOSPC
    kWritesFail,         // … EIO
    kSyncsFail,          // EIO; as on Linux what was dirty then is never written, and later syncs say OK
    kNeedlessSyncsFail,  // EIO, of files of which everything is safe
  };
  void Meet(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    at_ = 0;
  }
  // … from the n-th call on that could meet it.
  void MeetAfter(uint64_t n, Fault fault) {
    const std::lock_guard lock(mutex_);
    next_ = fault;
    fault_ = Fault::kNone;
    at_ = n;
  }
  // Calls that failed.
  uint64_t met() const {
    const std::lock_guard lock(mutex_);
    return met_;
  }

  rocksdb::IOStatus OnWrite() {
    const std::lock_guard lock(mutex_);
    Step();
    if (fault_ != Fault::kFull && fault_ != Fault::kWritesFail) return rocksdb::IOStatus::OK();
    ++met_;
    if (fault_ == Fault::kWritesFail) return rocksdb::IOStatus::IOError("write", "Input/output error");
    rocksdb::IOStatus full = rocksdb::IOStatus::NoSpace("write", "No space left on device");
    full.SetRetryable(true);  // as RocksDB's own files say it
    return full;
  }
  // `path` has so many bytes.
  rocksdb::IOStatus OnSync(const std::string& path, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    Step();
    File& file = files_[Name(path)];
    if (fault_ == Fault::kSyncsFail) {
      ++met_;
      file.torn = true;
      return rocksdb::IOStatus::IOError("fsync", "Input/output error");
    }
    if (fault_ == Fault::kNeedlessSyncsFail && bytes > 0 && bytes == file.safe) {
      ++met_;
      return rocksdb::IOStatus::IOError("needless fsync", path);
    }
    if (!file.torn) file.safe = bytes;
    return rocksdb::IOStatus::OK();
  }
  void OnNew(const std::string& path) {
    const std::lock_guard lock(mutex_);
    files_[Name(path)] = File();
  }
  // A file that is written in place, and has these bytes now, which are safe.
  void OnOpenInPlace(const std::string& path, std::string bytes) {
    const std::lock_guard lock(mutex_);
    in_place_[Name(path)] = {.safe = std::move(bytes), .unsafe = {}};
  }
  void OnWriteInPlace(const std::string& path, uint64_t offset, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& unsafe = in_place_[Name(path)].unsafe;
    unsafe[offset] = std::max(unsafe[offset], bytes);
  }
  // Bytes that were dirty when a sync failed stay unsafe until they are written once more: they count as
  // dirty.
  rocksdb::IOStatus OnSyncInPlace(const std::string& path, std::string bytes) {
    const std::lock_guard lock(mutex_);
    Step();
    if (fault_ == Fault::kSyncsFail) {
      ++met_;
      return rocksdb::IOStatus::IOError("fsync", "Input/output error");
    }
    in_place_[Name(path)] = {.safe = std::move(bytes), .unsafe = {}};
    return rocksdb::IOStatus::OK();
  }
  void OnRename(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    const auto moved = files_.find(Name(from));
    if (moved == files_.end()) return;
    files_[Name(to)] = moved->second;
    files_.erase(moved);
  }

  // Makes `to` what folder `from` holds after the process is killed now: everything, as safe as it was.
  static void Kill(const std::string& from, const std::string& to) { Copy(from, to); }
  // Makes `to` what folder `from` holds after power is lost now: of each file the safe bytes, and of the
  // others none, all, or some.
  void LosePower(const std::string& from, const std::string& to, world::Random& random) const {
    Copy(from, to);
    for (const auto& entry : std::filesystem::directory_iterator(to)) {
      if (LosePowerInPlace(entry.path(), random)) continue;
      const uint64_t size = entry.file_size();
      const uint64_t safe = std::min(size, Safe(entry.path(), size));
      const uint64_t rests[] = {0, size - safe, world::Uniform(random, size - safe + 1)};
      std::filesystem::resize_file(entry.path(), safe + rests[world::Uniform(random, 3)]);
    }
  }

 private:
  struct File {
    uint64_t safe = 0;
    bool torn = false;
  };
  struct InPlace {
    std::string safe;
    std::map<uint64_t, uint64_t> unsafe;  // so many bytes from there on
  };
  using Listing = std::map<std::string, uintmax_t>;

  static std::string Name(const std::string& path) { return std::filesystem::path(path).filename(); }
  static Listing List(const std::string& dir) {
    Listing sizes;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      sizes[entry.path().filename()] = entry.file_size(gone);
    }
    return sizes;
  }
  // Files come and go in the background: until nothing did.
  static void Copy(const std::string& from, const std::string& to) {
    std::error_code error;
    Listing before;
    do {
      std::filesystem::remove_all(to);
      before = List(from);
      std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
    } while (error || before != List(from));
  }
  // Of each write that is not safe nothing, all, or its beginning is left.
  bool LosePowerInPlace(const std::string& path, world::Random& random) const {
    const std::lock_guard lock(mutex_);
    const auto file = in_place_.find(Name(path));
    if (file == in_place_.end()) return false;
    std::fstream copy(path, std::ios::in | std::ios::out | std::ios::binary);
    for (const auto& [offset, bytes] : file->second.unsafe) {
      const uint64_t left[] = {0, bytes, world::Uniform(random, bytes + 1)};
      const uint64_t kept = left[world::Uniform(random, 3)];
      copy.seekp(static_cast<std::streamoff>(offset + kept));
      copy << file->second.safe.substr(offset + kept, bytes - kept);
    }
    return true;
  }
  void Step() {
    if (at_ > 0 && --at_ == 0) fault_ = next_;
  }
  // Files that were there before all this are safe.
  uint64_t Safe(const std::string& path, uint64_t otherwise) const {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(Name(path));
    return file == files_.end() ? otherwise : file->second.safe;
  }

  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  std::map<std::string, InPlace> in_place_;
  Fault fault_ = Fault::kNone;
  Fault next_ = Fault::kNone;
  uint64_t at_ = 0;
  uint64_t met_ = 0;
};

class FailingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::string path, Platter& platter)
      : FSWritableFileOwnerWrapper(std::move(file)), path_(std::move(path)), platter_(platter) {
    platter_.OnNew(path_);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    return Write(data, [&](const rocksdb::Slice& bytes) {
      return FSWritableFileOwnerWrapper::Append(bytes, options, context);
    });
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return Synced(FSWritableFileOwnerWrapper::Flush(options, context));
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return Synced(FSWritableFileOwnerWrapper::Flush(options, context));
  }

 private:
  template <class Take>
  rocksdb::IOStatus Write(const rocksdb::Slice& data, Take take) {
    rocksdb::IOStatus status = platter_.OnWrite();
    if (status.ok()) return take(data);
    (void)take(rocksdb::Slice(data.data(), data.size() / 2));
    return status;
  }
  rocksdb::IOStatus Synced(rocksdb::IOStatus status) {
    std::error_code error;
    return status.ok() ? platter_.OnSync(path_, std::filesystem::file_size(path_, error)) : status;
  }
  const std::string path_;
  Platter& platter_;
};

// Written in place.
class FailingFileInPlace final : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  FailingFileInPlace(std::unique_ptr<rocksdb::FSRandomRWFile>&& file, std::string path, Platter& platter)
      : FSRandomRWFileOwnerWrapper(std::move(file)), path_(std::move(path)), platter_(platter) {
    platter_.OnOpenInPlace(path_, Bytes());
  }
  rocksdb::IOStatus Write(uint64_t offset, const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    platter_.OnWriteInPlace(path_, offset, data.size());
    rocksdb::IOStatus status = platter_.OnWrite();
    const rocksdb::Slice half(data.data(), data.size() / 2);
    if (status.ok()) return FSRandomRWFileOwnerWrapper::Write(offset, data, options, context);
    (void)FSRandomRWFileOwnerWrapper::Write(offset, half, options, context);
    return status;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return platter_.OnSyncInPlace(path_, Bytes());
  }

 private:
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string path_;
  Platter& platter_;
};

// Nothing is really synced: the page cache is what a test reads again.
class FailingFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit FailingFiles(Platter& platter)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), platter_(platter) {}
  const char* Name() const override { return "FailingFiles"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, context);
    if (status.ok()) *file = std::make_unique<FailingFile>(std::move(*file), path, platter_);
    return status;
  }
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomRWFile(path, options, file, context);
    if (status.ok()) *file = std::make_unique<FailingFileInPlace>(std::move(*file), path, platter_);
    return status;
  }
  // A log is a file like any other.
  rocksdb::IOStatus NewLogger(const std::string& path, const rocksdb::IOOptions& options,
                              std::shared_ptr<rocksdb::Logger>* log,
                              rocksdb::IODebugContext* context) override {
    return rocksdb::FileSystem::NewLogger(path, options, log, context);
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = FileSystemWrapper::RenameFile(from, to, options, context);
    if (status.ok()) platter_.OnRename(from, to);
    return status;
  }

 private:
  Platter& platter_;
};

inline std::unique_ptr<rocksdb::Env> FailingEnv(Platter& platter) {
  return rocksdb::NewCompositeEnv(std::make_shared<FailingFiles>(platter));
}

}  // namespace paceline::engine::testing
