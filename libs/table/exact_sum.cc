#include "libs/table/exact_sum.h"

#include <bit>
#include <cmath>

namespace paceline::table {
namespace {

constexpr int64_t kLimbMask = 0xffffffff;

}  // namespace

void ExactSum::Add(double value) {
  constexpr int kMantissaBits = 52;
  constexpr int kExponentBias = 1075;
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>((bits >> kMantissaBits) & 0x7ff);
  if (exponent == 0) return;  // 0: no f32 and no square of one is so small a double
  const uint64_t mantissa = (bits & ((uint64_t{1} << kMantissaBits) - 1)) | (uint64_t{1} << kMantissaBits);
  const int place = exponent - kExponentBias - kLowestBit;
  const int shift = place % kBitsPerLimb;
  const auto limb = static_cast<size_t>(place / kBitsPerLimb);
  const auto low = static_cast<int64_t>((mantissa << shift) & static_cast<uint64_t>(kLimbMask));
  const auto high = static_cast<int64_t>(mantissa >> (kBitsPerLimb - shift));
  const int64_t sign = (bits >> 63) == 0 ? 1 : -1;
  limbs_[limb] += sign * low;
  limbs_[limb + 1] += sign * high;
  if (++adds_ < kAddsPerCarry) return;
  Carry(limbs_);
  adds_ = 0;
}

void ExactSum::Add(const ExactSum& other) {
  const Limbs added = other.Canonical();
  for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += added[i];
  Carry(limbs_);
  adds_ = 0;
}

void ExactSum::Carry(Limbs& limbs) {
  for (size_t i = 0; i + 1 < limbs.size(); ++i) {
    const int64_t carried = limbs[i] >> kBitsPerLimb;  // rounds down, so that what stays is not negative
    limbs[i] &= kLimbMask;
    limbs[i + 1] += carried;
  }
}

ExactSum::Limbs ExactSum::Canonical() const {
  Limbs limbs = limbs_;
  Carry(limbs);
  return limbs;
}

bool ExactSum::Set(const Limbs& canonical) {
  for (size_t i = 0; i + 1 < canonical.size(); ++i) {
    if (canonical[i] < 0 || canonical[i] > kLimbMask) return false;
  }
  if (canonical.back() > kLimbMask || canonical.back() < -kLimbMask) return false;
  limbs_ = canonical;
  adds_ = 0;
  return true;
}

double ExactSum::Rounded() const {
  Limbs limbs = Canonical();
  const bool negative = limbs.back() < 0;
  if (negative) {
    for (int64_t& limb : limbs) limb = -limb;
    Carry(limbs);
  }
  int top = kLimbs - 1;
  while (top > 0 && limbs[static_cast<size_t>(top)] == 0) --top;
  const auto at = [&](int i) {
    return i < 0 ? uint64_t{0} : static_cast<uint64_t>(limbs[static_cast<size_t>(i)]);
  };
  uint64_t high = (at(top) << kBitsPerLimb) | at(top - 1);
  if (high == 0) return 0;
  uint64_t low = (at(top - 2) << kBitsPerLimb) | at(top - 3);
  const int shift = std::countl_zero(high);
  if (shift > 0) {
    high = (high << shift) | (low >> (64 - shift));
    low <<= shift;
  }
  bool more = low != 0;
  for (int i = top - 4; i >= 0 && !more; --i) more = at(i) != 0;
  constexpr int kDropped = 11;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  uint64_t mantissa = high >> kDropped;
  const uint64_t rest = high & ((uint64_t{1} << kDropped) - 1);
  if (rest > kHalf || (rest == kHalf && (more || (mantissa & 1) != 0))) ++mantissa;
  const int exponent = (top - 1) * kBitsPerLimb + kLowestBit - shift + kDropped;
  const double magnitude = std::ldexp(static_cast<double>(mantissa), exponent);
  return negative ? -magnitude : magnitude;
}

}  // namespace paceline::table
