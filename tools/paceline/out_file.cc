#include "tools/paceline/out_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::tool {
namespace {

absl::Status Rename(const std::string& path, const std::string& name, bool replace) {
  if (renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(), replace ? 0 : RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (!replace && errno == EINVAL && access(name.c_str(), F_OK) != 0) {  // the file system cannot refuse it
    if (rename(path.c_str(), name.c_str()) == 0) return absl::OkStatus();
  } else if (!replace && (errno == EEXIST || errno == EINVAL)) {
    return absl::AlreadyExistsError(absl::StrCat(name, ": exists, and is left as it is"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot rename to ", name));
}

}  // namespace

OutFile::OutFile(std::string path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) Note("make");
}

OutFile::~OutFile() {
  if (fd_ >= 0) close(fd_);
  if (!kept_) unlink(path_.c_str());
}

void OutFile::Append(absl::string_view bytes) {
  WriteAt(size_, bytes);
  size_ += bytes.size();
}

void OutFile::WriteAt(uint64_t at, absl::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Note("write");
    at += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void OutFile::ForEachPiece(uint64_t from, const std::function<void(absl::string_view)>& visit) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  std::string piece(kPieceBytes, '\0');
  for (uint64_t at = from; status_.ok() && at < size_;) {
    const ssize_t n = pread(fd_, piece.data(), piece.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Note("read");
    visit(absl::string_view(piece).substr(0, static_cast<size_t>(n)));
    at += static_cast<uint64_t>(n);
  }
}

void OutFile::KeepAs(const std::string& name, bool replace) {
  if (status_.ok() && fsync(fd_) != 0) Note("sync");
  if (status_.ok()) status_ = Rename(path_, name, replace);
  kept_ = status_.ok();
}

void OutFile::Note(absl::string_view what) {
  status_ = absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot ", what));
}

absl::Status KeepFileAs(const std::string& path, const std::string& name, bool replace) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  absl::Status status;
  if (fd < 0 || fsync(fd) != 0) status = absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot sync"));
  if (fd >= 0) close(fd);
  if (status.ok()) status = Rename(path, name, replace);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace paceline::tool
