#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// Unsigned LEB128: seven bits a byte, the least significant first, the top bit set on all bytes but the last.
namespace paceline {

inline constexpr size_t kVarintBytesMax = 10;  // of a 64-bit number

// Bytes that `value` takes, 1 to kVarintBytesMax.
size_t VarintSize(uint64_t value);

// Appends `value` to `out`.
void AppendVarint(uint64_t value, std::string& out);

// Reads a number at the front of `in` and moves `in` past it. Safe for hostile bytes. On error `in` is
// unchanged:
//   kOutOfRange        `in` ends before the number does
//   kInvalidArgument   the number does not fit 64 bits, or is longer than it need be — each number has one
//                      encoding, so that equal contents have equal checksums
absl::StatusOr<uint64_t> TakeVarint(std::string_view& in);

}  // namespace paceline
