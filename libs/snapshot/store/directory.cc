#include "libs/snapshot/store/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::snapshot {
namespace {

namespace fs = std::filesystem;

constexpr int kRemovalsMax = 100;

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot ", what));
}

absl::Status Failed(absl::string_view what, const std::string& path, const std::error_code& error) {
  errno = error.value();
  return Failed(what, path);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // Errors of earlier writes may only show now.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Makes creations, renames and removals in the folder survive a loss of power.
absl::Status SyncFolder(const std::string& path) {
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return Failed("open", path);
  return fsync(folder.get()) == 0 ? absl::OkStatus() : Failed("sync", path);
}

class DirectorySource final : public Source {
 public:
  DirectorySource(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = read(file_.get(), to + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Failed("read", path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

class DirectoryNewFile final : public NewFile {
 public:
  DirectoryNewFile(std::string folder, const std::string& file, std::string temporary, Descriptor to)
      : folder_(std::move(folder)),
        path_(absl::StrCat(folder_, "/", file)),
        temporary_(std::move(temporary)),
        to_(std::move(to)) {}
  ~DirectoryNewFile() override {
    if (!committed_) unlink(temporary_.c_str());
  }

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = write(to_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Failed("write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (fsync(to_.get()) != 0) return Failed("sync", path_);
    if (!to_.Close()) return Failed("close", path_);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename to", path_);
    committed_ = true;
    return SyncFolder(folder_);
  }

 private:
  const std::string folder_;
  const std::string path_;
  const std::string temporary_;
  Descriptor to_;
  bool committed_ = false;
};

class Directory final : public Files {
 public:
  explicit Directory(std::string path) : path_(std::move(path)) {}

  absl::Status MakeFolder(const std::string& folder) override {
    const std::string path = absl::StrCat(path_, "/", folder);
    if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return Failed("make", path);
    return SyncFolder(path_);
  }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& folder,
                                                  const std::string& file) override {
    const std::string in = absl::StrCat(path_, "/", folder);
    // Two writers of one file, one perhaps in a process that was taken for dead, must not mix their bytes.
    static std::atomic<uint64_t> number = 0;
    std::string temporary = absl::StrCat(in, "/.", file, ".", getpid(), ".", number++);
    Descriptor to(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (to.get() < 0 && errno == ENOENT) {
      return absl::NotFoundError(absl::StrCat(
          in, ": there is no such folder: it was deleted, or --snapshot-dir is not the same everywhere"));
    }
    if (to.get() < 0) return Failed("make", temporary);
    return std::make_unique<DirectoryNewFile>(in, file, std::move(temporary), std::move(to));
  }

  absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& folder, const std::string& file) override {
    std::string path = absl::StrCat(path_, "/", folder, "/", file);
    Descriptor from(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (from.get() < 0) return Failed("open", path);
    return std::make_unique<DirectorySource>(std::move(path), std::move(from));
  }

  absl::StatusOr<std::vector<std::string>> Folders() override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error) && !error) names.push_back(it->path().filename().string());
      error.clear();  // removed meanwhile
    }
    if (error) return Failed("list", path_, error);
    std::ranges::sort(names);
    return names;
  }

  absl::Status Remove(const std::string& folder, const std::string& file) override {
    const std::string in = absl::StrCat(path_, "/", folder);
    const std::string path = absl::StrCat(in, "/", file);
    if (unlink(path.c_str()) != 0) return errno == ENOENT ? absl::OkStatus() : Failed("remove", path);
    return SyncFolder(in);
  }

  absl::Status RemoveFolder(const std::string& folder) override {
    const std::string path = absl::StrCat(path_, "/", folder);
    std::error_code error;
    // Writers may add files between the removal of the others and the removal of the folder.
    for (int tries = 0; tries < kRemovalsMax; ++tries) {
      error.clear();
      fs::remove_all(path, error);
      if (error != std::errc::directory_not_empty) break;
    }
    return error ? Failed("remove", path, error) : SyncFolder(path_);
  }

 private:
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Files>> OpenDirectory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Failed("make", path, error);
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return Failed("use", path);
  return std::make_unique<Directory>(path);
}

absl::StatusOr<std::unique_ptr<Files>> OpenDirectoryToRead(const std::string& path) {
  if (access(path.c_str(), R_OK | X_OK) != 0) return Failed("read", path);
  return std::make_unique<Directory>(path);
}

}  // namespace paceline::snapshot
