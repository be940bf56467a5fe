#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/placement.h"
#include "libs/table/exact_sum.h"
#include "libs/table/schema.h"
#include "libs/table/store.h"

// Reductions: one answer from all rows of a table, or of a range of its keys. Each segment reduces its own
// rows, slice by slice, to a Partial, and Partials are merged. The outcome depends on the rows' keys and
// values alone, to the bit: not on the order of rows in pages, the slices, or the order in which Partials
// come together.
namespace paceline::table {

// What is asked for. The numbers are those of the wire.
enum class ReduceOp : uint8_t {
  kSum = 1,       // of the values
  kL1Norm = 2,    // the sum of their absolute values
  kL2Norm = 3,    // the root of the sum of their squares
  kMaxNorm = 4,   // the largest absolute value
  kMax = 5,       // the largest value
  kMin = 6,       // the smallest one
  kRows = 7,      // the number of rows
  kNonZeros = 8,  // the number of values that are not 0
  kTop = 9,       // the k largest values, with their keys
  kTopAbs = 10,   // the k values of largest absolute value
};

struct ReduceQuery {
  // The most entries of a top-k.
  static constexpr uint32_t kTopMax = 1024;
  // A segment goes through so many values in one turn, and those left of the page or block then: a quarter of
  // a megabyte of rows, half a millisecond or so. What else its executor has to do waits no longer for it.
  static constexpr uint32_t kSliceValues = 64 * 1024;

  ReduceOp op = ReduceOp::kSum;
  uint64_t first = 0;                   // keys first .. last
  uint64_t last = UINT64_MAX;           // included
  std::optional<uint32_t> column = {};  // these values of the rows alone; unset: all
  uint32_t k = 0;                       // of a top-k
  uint32_t slice_values = kSliceValues;

  bool top() const { return op == ReduceOp::kTop || op == ReduceOp::kTopAbs; }
};

// OK if a table of this schema can answer it. INVALID_ARGUMENT, or OUT_OF_RANGE for keys beyond a ranged
// table's; the message names the field, what it is and what was expected.
absl::Status CheckQuery(const Schema& schema, const ReduceQuery& query);

// One of the values of a top-k.
struct TopEntry {
  uint64_t key = 0;
  uint32_t column = 0;
  float value = 0;
  friend bool operator==(const TopEntry&, const TopEntry&) = default;
};

// The part of an answer that some rows make. Plain value; −0 counts as 0.
struct Partial {
  uint64_t rows = 0;
  uint64_t values = 0;     // gone through, including the following three
  uint64_t non_zeros = 0;  // without NaN; counted for kNonZeros alone
  uint64_t nans = 0;
  uint64_t plus_infinities = 0;
  uint64_t minus_infinities = 0;
  float max = -std::numeric_limits<float>::infinity();  // of values that are not NaN; of kMaxNorm: absolute
  float min = std::numeric_limits<float>::infinity();
  ExactSum sum;               // of what the op adds up
  std::vector<TopEntry> top;  // at most k, in no order; no NaN

  // The row of `key` has these values.
  void AddRow(const ReduceQuery& query, uint64_t key, absl::Span<const float> row);
  void Merge(const ReduceQuery& query, const Partial& other);

  // The answer, unless it is a top-k. NaN if there is a NaN among the values, or infinities of both signs in
  // a sum. A maximum, minimum or kMaxNorm of no values is −∞, ∞ and 0.
  double Value(ReduceOp op) const;
  // The top-k in order: the largest first; of equal ones, the smallest key and column.
  std::vector<TopEntry> Ordered(ReduceOp op) const;

 private:
  void AddTop(const ReduceQuery& query, const TopEntry& entry);
};

// Where a slice has ended.
struct SliceEnd {
  bool more = false;    // false: the segment has no more rows
  uint64_t cursor = 0;  // of the next slice
  friend bool operator==(const SliceEnd&, const SliceEnd&) = default;
};

// Adds the rows of `segment` from `cursor` on to `partial`: those of whole pages or blocks, until they have
// query.slice_values values or more. The first slice has the cursor 0. If updates come between slices, each
// row is still in exactly one of them, provided that it was there at the first; a row of a ranged table is
// always there, with its initial values if nobody has pushed to it.
//
// The cursor is good for the store of one member: another one may have cut its pages elsewhere.
// REQUIRES: CheckQuery is OK; `placement` is the table's.
SliceEnd ReduceSlice(const TableStore& store, const ring::Placement& placement, SegmentId segment,
                     const ReduceQuery& query, uint64_t cursor, Partial* partial);

}  // namespace paceline::table
