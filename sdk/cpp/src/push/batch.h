#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/filter/key_lists.h"
#include "libs/ring/placement.h"
#include "libs/wire/frame.h"
#include "sdk/cpp/src/session/routes.h"

namespace paceline::sdk {

// Memory for grouped keys and values. The first access to fresh memory is slow, so a caller that makes many
// batches passes an allocator that reuses it.
using Buffer = std::shared_ptr<char>;
using Allocate = absl::FunctionRef<Buffer(size_t bytes)>;
Buffer AllocateFresh(size_t bytes);

// The keys, and for a push the values, of one call, grouped by segment in the order in which they travel.
// Immutable once made, and shared by all parts that still need some of it; never copied again on the way to
// the wire. Values may be *lent*: they lie in the caller's memory, in the caller's order, until they are
// copied (ClientState::TakeBack).
struct Batch {
  // One part's share of the batch. Entries are keys, or ranges of keys.
  struct Piece {
    SegmentId segment;
    uint32_t first_entry = 0;
    uint32_t entries = 0;
    uint32_t first_row = 0;  // in grouped order; of lent values in the caller's
    uint32_t rows = 0;       // more than `entries` if those are ranges
  };

  uint32_t dim = 1;
  bool ranges = false;  // entries are (first, count), 16 bytes; otherwise keys, 8 bytes
  uint32_t entries = 0;
  uint32_t rows = 0;
  Buffer keys;
  Buffer values;  // null for a pull
  bool lent = false;
  // The keys are those of a list (listed_keys.h): their memory outlives the batch, and comes again.
  bool listed = false;
  // Places of the entries' rows in the caller's order: the row of each key, or the first row of each range. A
  // push of listed keys has none unless it reads back.
  std::vector<uint32_t> places;
  std::vector<Piece> pieces;

  size_t EntryBytes() const { return ranges ? 16 : 8; }
  size_t RowBytes() const { return size_t{4} * dim; }
  size_t KeyBytes(const Piece& piece) const { return piece.entries * EntryBytes(); }
  size_t ValueBytes(const Piece& piece) const { return piece.rows * RowBytes(); }
  absl::string_view Keys(const Piece& piece) const {
    return {keys.get() + piece.first_entry * EntryBytes(), KeyBytes(piece)};
  }
  absl::string_view Values(const Piece& piece) const {
    return {values.get() + piece.first_row * RowBytes(), ValueBytes(piece)};
  }
  // The memory of all listed keys; none of other keys.
  filter::LastingMemory LastingKeys() const {
    if (!listed) return {};
    return {.bytes = {keys.get(), entries * EntryBytes()}, .owner = keys};
  }
  // Frames share runs of at least so many bytes of keys: of a list any, as streams know it by its place.
  size_t SharesKeysFrom() const { return listed ? 1 : wire::kWorthSharing; }
  // Keys and, for a push, values of all pieces.
  size_t Bytes() const { return entries * EntryBytes() + (values != nullptr ? rows * RowBytes() : 0); }
};

// The most keys or rows in one call.
inline constexpr uint64_t kBatchRowsMax = uint64_t{1} << 31;

// Groups `keys`. Keys of one segment keep their order. `values` has `dim` floats a key, or is empty for a
// pull. Pieces are in the order of `routes`; they have at most routes.piece_bytes of keys and values (or one
// row), counting the values that a pull brings back, and those of a push routes.PushPieceBytes(). `places`
// has the row of each key in the caller's order, if that is not 0, 1, 2 …. REQUIRES: at most kBatchRowsMax
// keys. O(keys + segments).
std::shared_ptr<const Batch> GroupKeys(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                       absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                       Allocate allocate, absl::Span<const uint32_t> places = {});

// The same for a pull, of keys that are pulled and pushed several times.
std::shared_ptr<const Batch> GroupListed(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                         absl::Span<const uint64_t> keys);
// A push of them: shares the keys of `listed`, which is of a pull. `values` are in the caller's order. It has
// places only if it `reads_back`, as a pull of its rows needs them.
std::shared_ptr<const Batch> PushListed(const Routes& routes, const Batch& listed,
                                        absl::Span<const float> values, bool reads_back, Allocate allocate);

// The same for the keys first .. first + count - 1 of a ranged table.
// REQUIRES: they exist; at most kBatchRowsMax.
std::shared_ptr<const Batch> GroupRange(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                        uint64_t first, uint64_t count, absl::Span<const float> values,
                                        Allocate allocate);

// The same in several batches, each of at most `bytes_max` bytes of values (or of one block). `take` gets
// each batch as soon as it is copied, so that the first are under way while the others are being made.
using TakeBatch = absl::FunctionRef<void(std::shared_ptr<const Batch>)>;
void GroupRangeInBatches(const Routes& routes, const ring::Placement& placement, uint32_t dim, uint64_t first,
                         uint64_t count, absl::Span<const float> values, Allocate allocate,
                         uint64_t bytes_max, TakeBatch take);

// The same, with values that are lent instead of copied: `values` has `dim` floats for each key. Each piece
// has one range, whose values lie side by side.
std::shared_ptr<Batch> LendRange(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                 uint64_t first, uint64_t count, Buffer values, Allocate allocate);

// A caller takes lent values back in two steps: it copies them, which may take long and needs no lock; then,
// within the gate, the batch sends the copy from now on.
//
// A copy of the values, if anybody else has the batch and may send some of it again; otherwise null.
Buffer CopyIfShared(const std::shared_ptr<Batch>& batch, Allocate allocate);
void TakeBack(Batch& batch, Buffer copy);

// Several ranges, for a pull. `place` is the row of the first key in the caller's order.
struct KeyRange {
  uint64_t first = 0;
  uint64_t count = 0;
  uint32_t place = 0;
};
std::shared_ptr<const Batch> GroupRanges(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                         absl::Span<const KeyRange> ranges, Allocate allocate);

// A pull that asks what has changed: one part for each of `refreshes`, whose entry is (LSN, rows at most).
struct Refresh {
  SegmentId segment;
  Lsn since;
  uint32_t rows_max = 0;  // 0: the shard only begins to record changes
};
std::shared_ptr<const Batch> BatchOf(absl::Span<const Refresh> refreshes, uint32_t dim, Allocate allocate);

// Copies the rows of `piece`, in the order of the piece, to their places in `out`, which has room for all
// rows of the batch. REQUIRES: values.size() == batch.ValueBytes(piece).
void Scatter(const Batch& batch, const Batch::Piece& piece, const absl::Cord& values, float* out);

// The same for several pieces, whose rows begin at byte `at` of the values. REQUIRES: ascending, and all are
// there.
struct Stretch {
  const Batch::Piece* piece = nullptr;
  size_t at = 0;
};
void Scatter(const Batch& batch, absl::Span<const Stretch> pieces, const absl::Cord& values, float* out);

}  // namespace paceline::sdk
