#pragma once

#include <array>
#include <cstdint>

namespace paceline::table {

// A sum of f32 values, or of their squares, without rounding. So it does not depend on the order in which
// they are added: replicas hold rows in different orders, and slices of a table end at different places.
//
// It is a fixed-point number of 704 bits, in limbs of 32 that are carried only now and then. An addition
// costs two integer additions: a few nanoseconds.
class ExactSum {
 public:
  static constexpr int kLimbs = 22;
  // Limbs 0 .. 20 are in [0, 2^32), the last one has the sign; limb i counts 2^(32 i - 352).
  using Limbs = std::array<int64_t, kLimbs>;

  // REQUIRES: `value` is a finite f32, or the square of one as a double, which is exact.
  void Add(double value);
  void Add(const ExactSum& other);

  // The double that is nearest to the sum; of two, the one with an even last bit.
  double Rounded() const;

  // Equal for equal sums.
  Limbs Canonical() const;
  // The inverse. False, with nothing changed: these are not what Canonical returns for any sum of 2^60
  // values.
  bool Set(const Limbs& canonical);

 private:
  static constexpr int kBitsPerLimb = 32;
  static constexpr int kLowestBit = -352;
  // Each addition adds at most 2^53 to a limb.
  static constexpr uint32_t kAddsPerCarry = 512;

  static void Carry(Limbs& limbs);

  Limbs limbs_ = {};
  uint32_t adds_ = 0;  // since the last carry
};

}  // namespace paceline::table
