#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::tool {

// Where a cluster on this machine keeps its files. One process at a time has it.
class DataFolder {
 public:
  // Makes `path` if it is not there; empty: a temporary one, under TMPDIR or /tmp, that is removed at the
  // end. UNAVAILABLE if another process has it.
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
