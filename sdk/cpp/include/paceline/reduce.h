#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

// Reductions: one answer from all rows of a table, or of a range of its keys, computed where the rows are
// (Table::Reduce, Table::TopK).
namespace paceline {

// What becomes of the values.
enum class Reduction {
  kSum = 1,   // their sum
  kL1Norm,    // the sum of their absolute values
  kL2Norm,    // the root of the sum of their squares
  kMaxNorm,   // the largest absolute value; 0 if there are no values
  kMax,       // the largest value
  kMin,       // the smallest value
  kRows,      // the number of rows
  kNonZeros,  // the number of values that are not 0
};

// Which values count, and how the reduction reads them.
struct ReduceOptions {
  // The rows of keys first, first + 1 … first + count − 1. Unset: to the end of the table; of a sparse table,
  // to the largest key.
  uint64_t first = 0;
  std::optional<uint64_t> count = {};
  // One of the dim values of each row, counted from 0. Unset: all.
  std::optional<uint32_t> column = {};

  // As in PullOptions; a lower priority goes first.
  std::optional<uint64_t> min_clock = {};
  uint32_t priority = 0;
  // How long it may take, waiting included; unset: ClientOptions::timeout.
  std::optional<absl::Duration> timeout = {};
};

// The answer of a reduction.
struct Reduced {
  double value = 0;
  uint64_t rows = 0;    // that were there
  uint64_t values = 0;  // that counted: rows, times dim unless there was a `column`
  friend bool operator==(const Reduced&, const Reduced&) = default;
};

// The order of TopK.
enum class TopBy {
  kValue,      // the largest values
  kMagnitude,  // the largest absolute values
};

// One of the values of a TopK.
struct TopValue {
  uint64_t key = 0;
  uint32_t column = 0;
  float value = 0;
  friend bool operator==(const TopValue&, const TopValue&) = default;
};

// The largest k of a TopK.
inline constexpr uint32_t kTopKMax = 1024;

}  // namespace paceline
