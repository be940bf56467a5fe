#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace paceline::expression {

// What an expression can do to f32 numbers. Each gives the result of IEEE 754, rounded to nearest, so that
// every machine computes the same.
enum class Operation : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMin,
  kMax,
  kSquareRoot,
  kAbsolute,
  kNegate,
  kIfLess,         // c if a < b, else d
  kIfLessOrEqual,  // c if a ≤ b, else d
  kIfEqual,        // c if a = b, else d
};
inline constexpr size_t kOperations = 12;

// The result for these operands; an operation ignores those that it does not have. With a NaN no comparison
// holds, so min and max are a if either is NaN, and a choice is d. They are a, too, where +0 meets -0.
template <Operation kOperation>
inline float Result(float a, [[maybe_unused]] float b, [[maybe_unused]] float c, [[maybe_unused]] float d) {
  if constexpr (kOperation == Operation::kAdd) return a + b;
  if constexpr (kOperation == Operation::kSubtract) return a - b;
  if constexpr (kOperation == Operation::kMultiply) return a * b;
  if constexpr (kOperation == Operation::kDivide) return a / b;
  if constexpr (kOperation == Operation::kMin) return b < a ? b : a;
  if constexpr (kOperation == Operation::kMax) return a < b ? b : a;
  if constexpr (kOperation == Operation::kSquareRoot) return std::sqrt(a);
  if constexpr (kOperation == Operation::kAbsolute) return std::abs(a);
  if constexpr (kOperation == Operation::kNegate) return -a;
  if constexpr (kOperation == Operation::kIfLess) return a < b ? c : d;
  if constexpr (kOperation == Operation::kIfLessOrEqual) return a <= b ? c : d;
  if constexpr (kOperation == Operation::kIfEqual) return a == b ? c : d;
}

}  // namespace paceline::expression
