#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Delta-coded keys: each 64-bit word as the difference to the word `stride` places before (to 0 for the first
// ones), modulo 2^64, in zigzag form as a varint. Sorted keys take a byte or two each; unsorted ones up to
// ten.
namespace paceline::filter {

// `stride`: 1 for keys, 2 for ranges. REQUIRES: whole words.
std::string EncodeDelta(absl::string_view keys, size_t stride);

// INVALID_ARGUMENT: a number is cut off or too long, or the words are more than `bytes_max` bytes.
absl::StatusOr<std::string> DecodeDelta(absl::string_view coded, size_t stride, size_t bytes_max);

}  // namespace paceline::filter
