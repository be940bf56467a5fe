#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/filter/filter.h"

// Compression of a frame's keys, or values, as one block: a varint, the bytes before compression, and the
// block of LZ4 or the frame of Zstandard. 0: what follows is not compressed, as it would not have become
// smaller.
namespace paceline::filter {

// REQUIRES for both: `filter` is kLz4 or kZstd.
std::string Compress(Filter filter, absl::string_view bytes);

// INVALID_ARGUMENT: they are not of that form, or would become more than `bytes_max` bytes; no more memory
// than that is taken.
absl::StatusOr<std::string> Decompress(Filter filter, absl::string_view bytes, size_t bytes_max);

}  // namespace paceline::filter
