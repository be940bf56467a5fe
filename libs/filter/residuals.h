#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

namespace paceline::filter {

// What was given to be pushed to a table's rows and was not sent: error feedback (Seide et al., INTERSPEECH
// 2014). Of every row that a push gives:
//
//   due  = given + kept      in f32, rounded once
//   sent + kept' = due       exactly
//
// `sent` is the whole row, nothing of it, or the row as Quantise rounds it. Only the first addition rounds,
// as that of any two updates does; so of integers that stay below 2^24 the sums of what was sent and of what
// was given agree to the last bit. (Where a value is beyond the range of binary16 the rest of it is rounded
// too.)
//
// Bounded: a row for which there is no room is not kept, and must be sent.
class Residuals {
 public:
  // Rows of `dim` values, in at most `bytes_max` bytes.
  Residuals(uint32_t dim, uint64_t bytes_max);

  // Makes what is given to a row what is due to it: adds what is kept, and keeps nothing of it any more. A
  // sum that is not finite is not made: then what is kept stays.
  void AddKept(uint64_t key, std::span<float> row);

  // Keeps a row that is not sent, or the rest of one. False: there is no room for another row, or the sum
  // with what is kept already is not finite; then nothing has changed.
  bool Keep(uint64_t key, std::span<const float> row);

  // Hands out all that is kept, by ascending keys, and keeps nothing any more.
  void TakeAll(absl::FunctionRef<void(uint64_t key, std::span<const float> row)> take);

  size_t rows() const { return slots_.size(); }
  // As they count against the bound: values, and some 32 bytes more a row.
  uint64_t bytes() const { return slots_.size() * row_bytes_; }

 private:
  std::span<float> At(uint32_t slot) { return {values_.data() + size_t{slot} * dim_, dim_}; }
  // Adds `from` to `to` if all sums are finite.
  static bool Add(std::span<const float> from, std::span<float> to);

  const uint32_t dim_;
  const uint64_t row_bytes_;
  const uint64_t rows_max_;
  absl::flat_hash_map<uint64_t, uint32_t> slots_;  // by key
  std::vector<float> values_;
  std::vector<uint32_t> free_;  // slots
};

}  // namespace paceline::filter
