#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/snapshot/files.h"

namespace paceline::snapshot {

// Snapshots in a directory: one folder each. All programs of a cluster are given the same one: a volume that
// all of them see. A file is written under a name that nobody reads, synced, and renamed. Makes the directory
// if need be.
absl::StatusOr<std::unique_ptr<Files>> OpenDirectory(const std::string& path);
// To read what is there only. kNotFound: there is no such directory.
absl::StatusOr<std::unique_ptr<Files>> OpenDirectoryToRead(const std::string& path);

}  // namespace paceline::snapshot
