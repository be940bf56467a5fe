#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "libs/table/schema.h"

// Initial values: pure functions of (seed, key, column). Every machine computes the same bits, since all
// arithmetic is on integers or is + - * / and square root of IEEE 754 doubles in a fixed order, without libm.
// So a row need not be stored before its first update. Safe to call from any thread.
//
//   word(seed, key, column) = Mix64(Mix64(Mix64(seed), key) + (column + 1) * 0x9e3779b97f4a7c15)
//
// that is, every row has a SplitMix64 stream of its own (Mix64 is that of ring/hash.h).
//
// About<T>::Value (about.h) makes a value of a word: of the fraction (word >> 11) / 2^53, or of z(p) with p =
// (2 * (word >> 12) + 1) / 2^53, where z is the inverse of the standard normal distribution function by
// Wichura's algorithm AS 241 (PPND16, Applied Statistics 37, 1988); the logarithm for its tails is our own.
// |z| <= 8.21; z is within 1e-14 of the true quantile, relative to max(1, |z|), far below the precision of a
// float.
namespace paceline::table {

// Writes the values of columns first_column .. first_column + out.size() - 1 of the row of `key`.
void Fill(const Initialiser& init, uint64_t seed, uint64_t key, uint32_t first_column, absl::Span<float> out);

namespace internal {

// The standard normal quantile of `p`. REQUIRES: 2^-53 <= p <= 1 - 2^-53.
double NormalQuantile(double p);

// The natural logarithm, within 2 units in the last place for x <= 1/2. REQUIRES: x is positive and normal.
double Log(double x);

}  // namespace internal
}  // namespace paceline::table
