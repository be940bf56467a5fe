#pragma once

#include <cstddef>
#include <filesystem>

#include "absl/status/statusor.h"

namespace paceline::bench {

// Bytes a second that `files` threads append to a file of their own each in `folder`, in groups of
// `group_bytes`, each followed by fdatasync. Takes about a second; the files are removed.
absl::StatusOr<double> PlainFilesBytesPerSecond(const std::filesystem::path& folder, int files,
                                                size_t group_bytes);

}  // namespace paceline::bench
