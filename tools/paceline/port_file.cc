#include "tools/paceline/port_file.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::tool {

PortFile::PortFile(std::filesystem::path path, int changes) : path_(std::move(path)), changes_(changes) {}

PortFile::PortFile(PortFile&& other) noexcept
    : path_(std::move(other.path_)), changes_(std::exchange(other.changes_, -1)) {}

PortFile::~PortFile() {
  if (changes_ >= 0) close(changes_);
}

absl::StatusOr<PortFile> PortFile::Expect(std::filesystem::path path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot remove ", path.string(), ": ", error.message()));
  }
  const int changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  PortFile file(std::move(path), changes);
  // The folder, since the file may be written elsewhere first and then moved to its place.
  if (inotify_add_watch(changes, file.path_.parent_path().c_str(), IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot watch ", file.path_.parent_path().string()));
  }
  return file;
}

std::optional<std::string> PortFile::Address() {
  alignas(inotify_event) char events[4096];
  while (read(changes_, events, sizeof(events)) > 0) {
  }
  std::ifstream file(path_);
  std::string line;
  // A line that has no end yet is still being written.
  if (!std::getline(file, line) || file.eof()) return std::nullopt;
  return line;
}

}  // namespace paceline::tool
