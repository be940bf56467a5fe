#include "libs/engine/store/marked_files.h"

#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "libs/base/crc32c.h"

namespace paceline::engine {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// A file that is written from beginning to end. One thread appends, any thread may sync.
class MarkedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  MarkedFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::string path, rocksdb::FileSystem& files,
             MarkWriter& marks)
      : FSWritableFileOwnerWrapper(std::move(file)), path_(std::move(path)), files_(files), marks_(marks) {
    written_.name = NameOf(path_);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    return Noted(FSWritableFileOwnerWrapper::Append(data, options, context), data);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& info,
                  IODebugContext* context) override {
    return Noted(FSWritableFileOwnerWrapper::Append(data, options, info, context), data);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* context) override {
    return Marked([&] { return FSWritableFileOwnerWrapper::Sync(options, context); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    return Marked([&] { return FSWritableFileOwnerWrapper::Fsync(options, context); });
  }

 private:
  // After an error the content of the file is unknown: the mark no longer follows it.
  IOStatus Noted(IOStatus status, const Slice& data) {
    const std::lock_guard lock(mutex_);
    known_ &= status.ok();
    written_.bytes += data.size();
    written_.crc32c = ExtendCrc32c(written_.crc32c, {data.data(), data.size()});
    return status;
  }
  template <class Sync>
  IOStatus Marked(Sync sync) {
    SyncedMark::File before;
    bool known = false;
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      before = written_;
      known = known_;
      first = !in_folder_;
    }
    IOStatus status = sync();
    // The mark must not name a file that its folder may lose.
    if (status.ok() && first) status = SyncFolder(files_, FolderOf(path_));
    if (!status.ok()) return status;
    if (known) marks_.Synced(before);
    const std::lock_guard lock(mutex_);
    in_folder_ = true;
    return status;
  }

  const std::string path_;
  rocksdb::FileSystem& files_;
  MarkWriter& marks_;
  std::mutex mutex_;
  SyncedMark::File written_;
  bool known_ = true;
  bool in_folder_ = false;
};

class MarkedFiles final : public rocksdb::FileSystemWrapper {
 public:
  MarkedFiles(std::shared_ptr<rocksdb::FileSystem> base, MarkWriter& marks)
      : FileSystemWrapper(std::move(base)), marks_(marks) {}
  const char* Name() const override { return "MarkedFiles"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* context) override {
    const std::string name = NameOf(path);
    if (!IsLog(name) && !IsManifest(name)) {
      return FileSystemWrapper::NewWritableFile(path, options, file, context);
    }
    IOStatus status = marks_.Forget(name);  // a number is given again after a start that came to nothing
    if (status.ok() && IsLog(name)) status = marks_.WriteNow();
    if (status.ok()) status = FileSystemWrapper::NewWritableFile(path, options, file, context);
    if (status.ok()) *file = std::make_unique<MarkedFile>(std::move(*file), path, *target(), marks_);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = marks_.Forget(NameOf(path));
    return status.ok() ? FileSystemWrapper::DeleteFile(path, options, context) : status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* context) override {
    const bool current = NameOf(to) == "CURRENT";
    IOStatus status = current ? marks_.WriteNow() : IOStatus::OK();
    if (status.ok()) status = FileSystemWrapper::RenameFile(from, to, options, context);
    if (!status.ok() || !current) return status;
    status = SyncFolder(*target(), FolderOf(to));
    if (status.ok()) marks_.HasCurrent();
    return status;
  }

 private:
  MarkWriter& marks_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> WithMarks(std::shared_ptr<rocksdb::FileSystem> base, MarkWriter& marks) {
  return rocksdb::NewCompositeEnv(std::make_shared<MarkedFiles>(std::move(base), marks));
}

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool IsLog(const std::string& name) {
  return absl::EndsWith(name, ".log");
}

bool IsManifest(const std::string& name) {
  return absl::StartsWith(name, "MANIFEST-");
}

IOStatus SyncFolder(rocksdb::FileSystem& files, const std::string& dir) {
  std::unique_ptr<rocksdb::FSDirectory> folder;
  IOStatus status = files.NewDirectory(dir, IOOptions(), &folder, nullptr);
  if (status.ok()) status = folder->Fsync(IOOptions(), nullptr);
  return status;
}

}  // namespace paceline::engine
