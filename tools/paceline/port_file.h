#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::tool {

// The file in which a server writes the host:port it has bound (--port-file), for the process that waits for
// it.
class PortFile {
 public:
  // Removes the file of an earlier start. The file's folder must exist.
  static absl::StatusOr<PortFile> Expect(std::filesystem::path path);
  ~PortFile();
  PortFile(PortFile&& other) noexcept;
  PortFile& operator=(PortFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // A descriptor that poll finds readable when Address() should be called again.
  int changes() const { return changes_; }
  // The host:port, once it is written.
  std::optional<std::string> Address();

 private:
  PortFile(std::filesystem::path path, int changes);

  std::filesystem::path path_;
  int changes_;  // inotify
};

}  // namespace paceline::tool
