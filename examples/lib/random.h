#pragma once

#include <cstdint>

namespace paceline::examples {

// The finalizer of SplitMix64, a bijection of the 64-bit numbers.
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// SplitMix64 (Steele, Lea, Flood, 2014), the same everywhere: the standard library's shuffles and
// distributions differ between implementations.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Mix64(state_ += 0x9e3779b97f4a7c15); }
  // From 0 up to, not including, `bound`, which is at least 1. Biased by bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // Evenly distributed over [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace paceline::examples
