#include "libs/filter/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace paceline::filter {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuiet = 0x00400000;

// Rounds away the low `bits` of a finite value's pattern, ties to even. A carry into the exponent is what the
// next power of two is.
uint32_t WithoutLow(uint32_t pattern, int bits) {
  const uint32_t low = (uint32_t{1} << bits) - 1;
  return (pattern + (low >> 1) + ((pattern >> bits) & 1)) & ~low;
}

// What is not finite stays so, with as much of a NaN's payload as is carried.
uint32_t NotFinite(uint32_t magnitude, int bits) {
  if (magnitude == kInfinity) return magnitude;
  return (magnitude | kQuiet) & ~((uint32_t{1} << bits) - 1);
}

float ToF16(float value) {
  constexpr int kDropped = 13;
  constexpr uint32_t kLargest = 0x477fe000;         // 65,504
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  const uint32_t pattern = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = pattern & ~kSign;
  uint32_t rounded;
  if (magnitude >= kInfinity) {
    rounded = NotFinite(magnitude, kDropped);
  } else if (magnitude >= kSmallestNormal) {
    rounded = std::min(WithoutLow(magnitude, kDropped), kLargest);
  } else {
    // Multiples of 2^-24, which is what the last bit of numbers from 0.5 on is worth.
    rounded = std::bit_cast<uint32_t>((std::bit_cast<float>(magnitude) + 0.5f) - 0.5f);
  }
  return std::bit_cast<float>(rounded | (pattern & kSign));
}

float ToBf16(float value) {
  constexpr int kDropped = 16;
  constexpr uint32_t kLargest = 0x7f7f0000;
  const uint32_t pattern = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = pattern & ~kSign;
  const uint32_t rounded = magnitude >= kInfinity ? NotFinite(magnitude, kDropped)
                                                  : std::min(WithoutLow(magnitude, kDropped), kLargest);
  return std::bit_cast<float>(rounded | (pattern & kSign));
}

// The exponent of the smallest power of two of which 127 reach `largest`, within what one byte can tell
// apart. Beyond its upper end 127 of them would not be finite.
int Int8Exponent(float largest) {
  int exponent = 0;
  const float fraction = std::frexp(largest, &exponent);  // in [0.5, 1)
  return std::clamp(exponent - (fraction <= 127.0f / 128 ? 7 : 6), -134, 121);
}

// A row in which a value is not finite stays as it is: integers cannot say it, and no shard takes it.
void ToInt8(std::span<float> row) {
  float largest = 0;
  for (const float value : row) {
    if (!std::isfinite(value)) return;
    largest = std::max(largest, std::fabs(value));
  }
  if (largest == 0) {
    std::fill(row.begin(), row.end(), 0.0f);  // -0 too
    return;
  }
  // Doubles: neither power leaves their range, and both products are exact.
  const int exponent = Int8Exponent(largest);
  const double up = std::ldexp(1.0, -exponent);
  const double down = std::ldexp(1.0, exponent);
  for (float& value : row) {
    const double steps = std::clamp(value * up, -127.0, 127.0);
    const auto whole = static_cast<int32_t>(std::nearbyint(steps));
    value = static_cast<float>(whole * down);
  }
}

}  // namespace

void Quantise(Precision precision, std::span<float> row) {
  switch (precision) {
    case Precision::kF32:
      return;
    case Precision::kF16:
      for (float& value : row) value = ToF16(value);
      return;
    case Precision::kBf16:
      for (float& value : row) value = ToBf16(value);
      return;
    case Precision::kInt8:
      ToInt8(row);
      return;
  }
}

}  // namespace paceline::filter
