#include "tools/paceline/data_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace paceline::tool {
namespace {

absl::StatusOr<std::filesystem::path> MakeTemporary() {
  const char* parent = std::getenv("TMPDIR");
  std::string path = absl::StrCat(parent != nullptr && *parent != '\0' ? parent : "/tmp", "/paceline-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
  return std::filesystem::path(path);
}

}  // namespace

DataFolder::DataFolder(std::filesystem::path path, bool temporary)
    : path_(std::move(path)), temporary_(temporary) {}

absl::StatusOr<std::unique_ptr<DataFolder>> DataFolder::Open(const std::string& path) {
  std::error_code error;
  std::filesystem::path made = path.empty() ? "" : std::filesystem::absolute(path, error);
  if (path.empty()) {
    absl::StatusOr<std::filesystem::path> temporary = MakeTemporary();
    if (!temporary.ok()) return temporary.status();
    made = *std::move(temporary);
  }
  std::unique_ptr<DataFolder> folder(new DataFolder(made, path.empty()));
  std::filesystem::create_directories(folder->logs(), error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", folder->logs().string(), ": ", error.message()));
  }
  folder->lock_ = open(made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (flock(folder->lock_, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(absl::StrCat(made.string(),
                                               " is in use by another `paceline up`; stop that, or choose "
                                               "another --data-dir"));
  }
  return folder;
}

DataFolder::~DataFolder() {
  std::error_code ignored;  // the process ends: no error matters now
  if (temporary_) std::filesystem::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace paceline::tool
