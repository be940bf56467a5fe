#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::tool {

// The folder of a cluster on this machine. Only one process at a time may use it.
class DataFolder {
 public:
  // Makes `path` if it does not exist; empty: makes a temporary folder, under TMPDIR or /tmp, and removes it
  // at the end. UNAVAILABLE if another process uses it.
  static absl::StatusOr<std::unique_ptr<DataFolder>> Open(const std::string& path);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool temporary() const { return temporary_; }
  std::filesystem::path logs() const { return path_ / "logs"; }

 private:
  DataFolder(std::filesystem::path path, bool temporary);

  const std::filesystem::path path_;
  const bool temporary_;
  int lock_ = -1;
};

}  // namespace paceline::tool
