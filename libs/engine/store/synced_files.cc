#include "libs/engine/store/synced_files.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace paceline::engine {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class SyncedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  explicit SyncedFile(std::unique_ptr<rocksdb::FSWritableFile>&& file)
      : FSWritableFileOwnerWrapper(std::move(file)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    return Changed(FSWritableFileOwnerWrapper::Append(data, options, context));
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& info,
                  IODebugContext* context) override {
    return Changed(FSWritableFileOwnerWrapper::Append(data, options, info, context));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* context) override {
    return Changed(FSWritableFileOwnerWrapper::PositionedAppend(data, offset, options, context));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& info, IODebugContext* context) override {
    return Changed(FSWritableFileOwnerWrapper::PositionedAppend(data, offset, options, info, context));
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* context) override {
    return Changed(FSWritableFileOwnerWrapper::Truncate(size, options, context));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* context) override {
    return IfChanged([&] { return FSWritableFileOwnerWrapper::Sync(options, context); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    return IfChanged([&] { return FSWritableFileOwnerWrapper::Fsync(options, context); });
  }

 private:
  // Called after the write, also a failed one, since part of its data may be in the file. A sync that ran
  // beside the write may have missed it, and does not count.
  IOStatus Changed(IOStatus status) {
    changed_.store(true);
    return status;
  }
  // One sync at a time: a second caller waits for the first, and returns no earlier than it.
  template <class Sync>
  IOStatus IfChanged(Sync sync) {
    const std::lock_guard lock(syncing_);
    if (!changed_.exchange(false)) return IOStatus::OK();
    IOStatus status = sync();
    if (!status.ok()) changed_.store(true);
    return status;
  }

  std::mutex syncing_;
  std::atomic<bool> changed_{true};  // a new file has never been synced
};

class SyncedFiles final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "SyncedFiles"; }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* context) override {
    IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, context);
    if (status.ok()) *file = std::make_unique<SyncedFile>(std::move(*file));
    return status;
  }
};

}  // namespace

std::unique_ptr<rocksdb::Env> WithoutNeedlessSyncs(std::shared_ptr<rocksdb::FileSystem> base) {
  return rocksdb::NewCompositeEnv(std::make_shared<SyncedFiles>(std::move(base)));
}

}  // namespace paceline::engine
