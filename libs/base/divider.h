#pragma once

#include <cstdint>

namespace paceline {

// Divides by a number that is the same for many dividends: those below 2^32 by a multiplication, which takes
// a fifth of a division's time (Granlund and Montgomery, PLDI 1994); others by a division.
class Divider {
 public:
  // 0: it must not be used to divide.
  constexpr explicit Divider(uint64_t by = 0)
      : by_(by), inverse_(by < 2 || by > UINT32_MAX ? 0 : UINT64_MAX / by + 1) {}

  constexpr uint64_t by() const { return by_; }
  constexpr uint64_t operator()(uint64_t dividend) const {
    // The inverse exceeds 2^64 / by_ by less than 1. So the quotient is exact but for less than
    // dividend / 2^64, which is less than 1 / by_: it is rounded down to the right number.
    if (dividend <= UINT32_MAX && inverse_ != 0) {
      return (dividend * (inverse_ >> 32) + (dividend * (inverse_ & UINT32_MAX) >> 32)) >> 32;
    }
    return dividend / by_;
  }

  friend constexpr bool operator==(const Divider&, const Divider&) = default;

 private:
  uint64_t by_;
  uint64_t inverse_;  // 2^64 / by, rounded up; 0: there is none
};

}  // namespace paceline
