#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/snapshot/files.h"

namespace paceline::snapshot {

// Snapshots in a directory, one folder each. All programs of a cluster use the same directory, on a volume
// that all of them see. A file is written under a temporary name, synced, and renamed. Creates the directory
// if need be.
absl::StatusOr<std::unique_ptr<Files>> OpenDirectory(const std::string& path);
// Opens an existing directory for reading. kNotFound: it does not exist.
absl::StatusOr<std::unique_ptr<Files>> OpenDirectoryToRead(const std::string& path);

}  // namespace paceline::snapshot
