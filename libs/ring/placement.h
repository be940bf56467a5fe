#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/divider.h"
#include "libs/base/ids.h"
#include "libs/ring/hash.h"

namespace paceline::ring {

// The ring has 2^k segments; k is fixed when the cluster is created.
inline constexpr int kRingBitsMax = 16;
inline constexpr int kRingBitsDefault = 6;

// Bounds of one block of a ranged table, in bytes of its rows' values (4 a value; the update rule's slots do
// not count). A single row may be wider than kBlockBytesMax; such a block is one row. That a row with its
// slots fits a page is checked where the table's schema is, not here.
inline constexpr uint64_t kBlockBytesMin = 1024;
inline constexpr uint64_t kBlockBytesMax = 64 * 1024;

// A run of keys first .. first + count - 1 that lies in one block, hence in one segment.
struct Piece {
  SegmentId segment;
  uint64_t first = 0;
  uint64_t count = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// Maps each key of one table to its segment. A small value: copy it freely, share it between threads.
//
// The result depends only on the table's id, kind and size and on the number of segments. All of these are
// fixed for the table's life; SegmentMap says which shards serve a segment now. Client and shard must agree
// on it bit for bit: the formulas below are frozen, and docs/wire.md has their test vectors.
//
// Sparse table: segment = the top k bits of Mix64(table, key).
//
// Ranged table of n rows of dim values: keys 0 .. n-1 are cut into blocks of
//
//   rows_per_block = clamp(n div (4 * 2^k), low, high)
//     low  = (256 + dim - 1) div dim      the fewest rows with at least 1 KiB of values
//     high = max(1, 16384 div dim)        the most rows with at most 64 KiB of values, or one row
//   block   = key div rows_per_block
//   segment = (Mix64(table) + block) mod 2^k
//
// (div rounds down.) The aim is four blocks or more per segment, so that even a small model spreads over all
// shards; the clamp keeps headers small beside the values, and a block no larger than a page. Neighbouring
// blocks lie in neighbouring segments, and tables start at different ones.
class Placement {
 public:
  // kInvalidArgument when `ring_bits` is outside 0 .. kRingBitsMax, or `rows` or `dim` is 0.
  static absl::StatusOr<Placement> Sparse(TableId table, int ring_bits);
  static absl::StatusOr<Placement> Ranged(TableId table, int ring_bits, uint64_t rows, uint32_t dim);

  // The segment of `key`. O(1), defined for every key: a key beyond the end of a ranged table is placed as if
  // the table went on, since some segment has to refuse it.
  SegmentId Of(uint64_t key) const {
    if (ranged()) return OfBlock(BlockOf(key));
    if (ring_bits_ == 0) return SegmentId(0);  // to shift a 64-bit number by 64 is undefined
    return SegmentId(static_cast<uint32_t>(Mix64(key + seed_) >> (64 - ring_bits_)));
  }

  // segments[i] = Of(key i).v, for `count` keys of 8 bytes that lie side by side, at any address. O(count),
  // of a sparse table in about a nanosecond a key.
  void OfAll(const void* keys, size_t count, uint32_t* segments) const;
  // True if all of them lie in `segment`. Costs less than OfAll: it stores nothing.
  bool AllIn(SegmentId segment, const void* keys, size_t count) const;

  // Cuts the keys first .. first + count - 1 of a ranged table at block boundaries. Returns one piece per
  // block touched, ascending; none if count is 0. Does not merge blocks, even if k is 0: one piece never
  // touches two pages. O(number of blocks touched).
  //
  // kFailedPrecondition: the table is sparse. kOutOfRange: the run leaves 0 .. rows() - 1.
  absl::StatusOr<std::vector<Piece>> ForRange(uint64_t first, uint64_t count) const;

  bool ranged() const { return RowsPerBlock() != 0; }
  TableId table() const { return table_; }
  int ring_bits() const { return ring_bits_; }
  uint32_t SegmentCount() const { return uint32_t{1} << ring_bits_; }

  // Of a ranged table; both are 0 for a sparse one. The last block may have fewer rows than the others.
  uint64_t rows() const { return rows_; }
  uint64_t RowsPerBlock() const { return rows_per_block_.by(); }

  // REQUIRES: ranged().
  uint64_t BlockOf(uint64_t key) const { return rows_per_block_(key); }
  SegmentId OfBlock(uint64_t block) const {
    // The sum may wrap: 2^64 is a multiple of 2^k.
    return SegmentId(static_cast<uint32_t>((seed_ + block) & (SegmentCount() - 1)));
  }

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  Placement(TableId table, int ring_bits, uint64_t rows, uint64_t rows_per_block);

  // AllIn of a ranged table. ComeInRuns: several keys of one block probably follow one another.
  bool ComeInRuns(const void* keys, size_t count) const;
  bool AllRunsIn(SegmentId segment, const void* keys, size_t count) const;
  bool EachIn(SegmentId segment, const void* keys, size_t count) const;

  TableId table_;
  int ring_bits_ = 0;
  uint64_t rows_ = 0;
  Divider rows_per_block_;  // by 0: sparse
  uint64_t seed_ = 0;       // Mix64(table)
};

}  // namespace paceline::ring
