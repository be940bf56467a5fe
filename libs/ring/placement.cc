#include "libs/ring/placement.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/base/wide_vectors.h"
#include "libs/ring/hash.h"

namespace paceline::ring {
namespace {

constexpr uint64_t kBytesPerValue = 4;
constexpr uint64_t kBlocksPerSegment = 4;

absl::Status CheckRingBits(int ring_bits) {
  if (ring_bits >= 0 && ring_bits <= kRingBitsMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("ring_bits is ", ring_bits, "; expected 0 to ", kRingBitsMax,
                                                 ", the number the cluster was created with"));
}

uint64_t RowsPerBlockOf(int ring_bits, uint64_t rows, uint32_t dim) {
  constexpr uint64_t kValuesMin = kBlockBytesMin / kBytesPerValue;
  constexpr uint64_t kValuesMax = kBlockBytesMax / kBytesPerValue;
  const uint64_t low = (kValuesMin + dim - 1) / dim;
  const uint64_t high = std::max<uint64_t>(1, kValuesMax / dim);
  return std::clamp(rows / (kBlocksPerSegment << ring_bits), low, high);
}

const char* KeysFrom(const void* keys, size_t i) {
  return static_cast<const char*>(keys) + i * sizeof(uint64_t);
}

uint64_t KeyAt(const void* keys, size_t i) {
  return LoadU64(KeysFrom(keys, i));
}

// How many of the keys at the front are first .. first + rows - 1.
PACELINE_WIDEST_VECTORS size_t CountWithin(uint64_t first, uint64_t rows, const void* keys, size_t count) {
  constexpr size_t kRun = 8;
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) {
    uint32_t beyond = 0;
    for (size_t lane = 0; lane < kRun; ++lane)
      beyond |= KeyAt(keys, i + lane) - first >= rows ? 1u << lane : 0u;
    if (beyond != 0) return i + static_cast<size_t>(std::countr_zero(beyond));
  }
  while (i < count && KeyAt(keys, i) - first < rows) ++i;
  return i;
}

}  // namespace

Placement::Placement(TableId table, int ring_bits, uint64_t rows, uint64_t rows_per_block)
    : table_(table),
      ring_bits_(ring_bits),
      rows_(rows),
      rows_per_block_(rows_per_block),
      seed_(Mix64(table.v)) {}

absl::StatusOr<Placement> Placement::Sparse(TableId table, int ring_bits) {
  ABSL_RETURN_IF_ERROR(CheckRingBits(ring_bits));
  return Placement(table, ring_bits, 0, 0);
}

absl::StatusOr<Placement> Placement::Ranged(TableId table, int ring_bits, uint64_t rows, uint32_t dim) {
  ABSL_RETURN_IF_ERROR(CheckRingBits(ring_bits));
  if (rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat("table ", table.v,
                                                   " is ranged and has 0 rows; expected "
                                                   "at least 1, or a sparse table"));
  }
  if (dim == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table.v, " has rows of 0 values; expected a dim of at least 1"));
  }
  return Placement(table, ring_bits, rows, RowsPerBlockOf(ring_bits, rows, dim));
}

void Placement::OfAll(const void* keys, size_t count, uint32_t* segments) const {
  if (ring_bits_ == 0) return (void)std::fill_n(segments, count, 0);
  if (!ranged()) return MixTops(seed_, keys, count, 64 - ring_bits_, segments);
  for (size_t i = 0; i < count; ++i) segments[i] = OfBlock(BlockOf(KeyAt(keys, i))).v;
}

bool Placement::AllIn(SegmentId segment, const void* keys, size_t count) const {
  if (ring_bits_ == 0) return count == 0 || segment.v == 0;
  if (!ranged()) return AllMixTo(seed_, keys, count, 64 - ring_bits_, segment.v);
  return ComeInRuns(keys, count) ? AllRunsIn(segment, keys, count) : EachIn(segment, keys, count);
}

bool Placement::ComeInRuns(const void* keys, size_t count) const {
  constexpr size_t kWorthwhile = 8;  // keys a block
  if (count < kWorthwhile) return false;
  // Of keys that do not ascend this may be any number: both ways give the same answer.
  const uint64_t blocks = BlockOf(KeyAt(keys, count - 1)) - BlockOf(KeyAt(keys, 0));
  return count / kWorthwhile > blocks / SegmentCount();
}

// To see that a key is in the block of the one before costs less than to find its own.
bool Placement::AllRunsIn(SegmentId segment, const void* keys, size_t count) const {
  for (size_t i = 0; i < count;) {
    const uint64_t block = BlockOf(KeyAt(keys, i));
    if (OfBlock(block) != segment) return false;
    const uint64_t first = block * RowsPerBlock();
    // The last block of all numbers may be shorter: small ones are not in it.
    const uint64_t rows = first == 0 ? RowsPerBlock() : std::min(RowsPerBlock(), uint64_t{0} - first);
    ++i;
    i += CountWithin(first, rows, KeysFrom(keys, i), count - i);
  }
  return true;
}

bool Placement::EachIn(SegmentId segment, const void* keys, size_t count) const {
  uint32_t elsewhere = 0;
  for (size_t i = 0; i < count; ++i) elsewhere |= OfBlock(BlockOf(KeyAt(keys, i))).v ^ segment.v;
  return elsewhere == 0;
}

absl::StatusOr<std::vector<Piece>> Placement::ForRange(uint64_t first, uint64_t count) const {
  if (!ranged()) {
    return absl::FailedPreconditionError(
        absl::StrCat("table ", table_.v, " is sparse: its keys have no ranges; name the keys one by one"));
  }
  if (first > rows_ || count > rows_ - first) {
    return absl::OutOfRangeError(absl::StrCat("range of ", count, " keys from ", first, " leaves table ",
                                              table_.v, ", whose keys are 0 to ", rows_ - 1));
  }
  std::vector<Piece> pieces;
  if (count == 0) {
    return pieces;
  }
  const uint64_t last_block = BlockOf(first + count - 1);
  pieces.reserve(last_block - BlockOf(first) + 1);
  for (uint64_t block = BlockOf(first); block <= last_block; ++block) {
    const uint64_t taken = std::min(count, RowsPerBlock() - first % RowsPerBlock());
    pieces.push_back({OfBlock(block), first, taken});
    first += taken;
    count -= taken;
  }
  return pieces;
}

}  // namespace paceline::ring
