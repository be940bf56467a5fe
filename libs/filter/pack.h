#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/filter/quantise.h"

// Packing of values in fewer bits without loss: a row of f32 travels in `Precision` if each of its values
// comes back bit for bit, and as f32 otherwise. Rows that Quantise has rounded mostly do (all of them but
// rows of int8 with values that are not finite).
//
//   varint dim, varint rows
//   u8           0: all rows are packed; 1: a bit a row follows, rows 0 to 7 in the first byte from its
//                lowest bit on: 1: that row is f32
//   rows         f16, bf16: u16 a value. int8: u8 exponent + 134, then i8 a value: value = i8 × 2^exponent
namespace paceline::filter {

// nullopt: that would not take fewer bytes. REQUIRES: not kF32; whole rows of `dim` ≥ 1 values.
std::optional<std::string> Pack(Precision precision, uint32_t dim, absl::string_view values);

// INVALID_ARGUMENT: malformed, or more than `bytes_max` bytes of f32; no more memory than that is taken.
absl::StatusOr<std::string> Unpack(Precision precision, absl::string_view packed, size_t bytes_max);

}  // namespace paceline::filter
