#pragma once

#include <span>

namespace paceline::filter {

// How many bits a value has on the link. A value that `Quantise` has rounded is carried without further loss:
// it is the same f32 again after the link.
enum class Precision : int {
  kF32 = 0,
  // IEEE 754 binary16: 11 significant bits; largest finite value 65,504.
  kF16 = 1,
  // The upper half of an f32: 8 significant bits, the range of an f32.
  kBf16 = 2,
  // Integers from -127 to 127 times one power of two per row: the smallest power that fits the row's largest
  // value. A power of two makes rounding idempotent: a rounded row rounds to itself.
  kInt8 = 3,
};

// Rounds each value of one row to the nearest value that `precision` carries, ties to even. Finite values
// stay finite: those beyond the range become the largest that is carried. Idempotent. Bit-equal on every
// machine. What is not finite stays so; under kInt8 a row that has such a value stays as it is.
void Quantise(Precision precision, std::span<float> row);

}  // namespace paceline::filter
