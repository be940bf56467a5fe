#include "sdk/cpp/src/push/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "libs/base/little_endian.h"
#include "sdk/cpp/src/pull/cord_reader.h"

namespace paceline::sdk {
namespace {

static_assert(std::endian::native == std::endian::little,
              "keys and values are copied as they are, so the machine must be little-endian as the wire is");

// Assigns entries to segments: `order` lists them grouped by segment, in the order of the routes' ranks, and
// those of rank r end at ends[i] for the i-th rank that occurs.
struct Groups {
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, uint32_t>> ends;  // (rank, end in order), ascending
};

// How many entries each segment has. Of few segments, neighbours are counted apart: to count one of the same
// segment as the entry before would wait for that one.
std::vector<uint32_t> CountEach(const std::vector<uint32_t>& segments, size_t segment_count) {
  constexpr size_t kFewSegments = 256;
  const size_t apart = segment_count <= kFewSegments ? 4 : 1;
  std::vector<uint32_t> counts(apart * segment_count, 0);
  for (size_t i = 0; i < segments.size(); ++i) ++counts[i % apart * segment_count + segments[i]];
  for (size_t part = 1; part < apart; ++part) {
    for (size_t s = 0; s < segment_count; ++s) counts[s] += counts[part * segment_count + s];
  }
  counts.resize(segment_count);
  return counts;
}

Groups CountingSort(const Routes& routes, const std::vector<uint32_t>& segments) {
  std::vector<uint32_t> next = CountEach(segments, routes.segments.size());
  Groups groups;
  uint32_t end = 0;
  for (uint32_t rank = 0; rank < routes.segments.size(); ++rank) {
    uint32_t& of_segment = next[routes.segments[rank].v];
    const uint32_t count = std::exchange(of_segment, end);
    end += count;
    if (count > 0) groups.ends.emplace_back(rank, end);
  }
  groups.order.resize(segments.size());
  for (uint32_t i = 0; i < segments.size(); ++i) groups.order[next[segments[i]]++] = i;
  return groups;
}

// For a few keys on a ring of many segments, where a pass over the segments would cost more.
Groups ComparisonSort(const Routes& routes, const std::vector<uint32_t>& segments) {
  Groups groups;
  const auto rank_of = [&](uint32_t entry) { return routes.rank[segments[entry]]; };
  groups.order.resize(segments.size());
  std::iota(groups.order.begin(), groups.order.end(), 0);
  std::stable_sort(groups.order.begin(), groups.order.end(),
                   [&](uint32_t a, uint32_t b) { return rank_of(a) < rank_of(b); });
  for (uint32_t i = 0; i < groups.order.size(); ++i) {
    const uint32_t rank = rank_of(groups.order[i]);
    if (groups.ends.empty() || groups.ends.back().first != rank) groups.ends.emplace_back(rank, i);
    groups.ends.back().second = i + 1;
  }
  return groups;
}

Groups Group(const Routes& routes, const std::vector<uint32_t>& segments) {
  return segments.size() * 4 < routes.segments.size() ? ComparisonSort(routes, segments)
                                                      : CountingSort(routes, segments);
}

// Cuts grouped entries into pieces. Add must be called for every entry in grouped order.
class Cutter {
 public:
  Cutter(Batch& batch, size_t piece_bytes) : batch_(batch), piece_bytes_(piece_bytes) {}

  void Add(SegmentId segment, uint32_t rows) {
    const size_t bytes = batch_.EntryBytes() + rows * batch_.RowBytes();
    const bool fits =
        !batch_.pieces.empty() && batch_.pieces.back().segment == segment && bytes_ + bytes <= piece_bytes_;
    if (!fits) {
      batch_.pieces.push_back({.segment = segment, .first_entry = entry_, .first_row = row_});
      bytes_ = 0;
    }
    Batch::Piece& piece = batch_.pieces.back();
    ++piece.entries;
    piece.rows += rows;
    bytes_ += bytes;
    ++entry_;
    row_ += rows;
  }

 private:
  Batch& batch_;
  const size_t piece_bytes_;
  size_t bytes_ = 0;
  uint32_t entry_ = 0;
  uint32_t row_ = 0;
};

// The same for keys, `count` of one segment at a time: each takes as many bytes as any other.
void CutKeys(Batch& batch, size_t piece_bytes, SegmentId segment, uint32_t begin, uint32_t count) {
  const auto most =
      static_cast<uint32_t>(std::max<size_t>(1, piece_bytes / (batch.EntryBytes() + batch.RowBytes())));
  for (uint32_t end = begin + count; begin < end;) {
    const uint32_t taken = std::min(most, end - begin);
    batch.pieces.push_back(
        {.segment = segment, .first_entry = begin, .entries = taken, .first_row = begin, .rows = taken});
    begin += taken;
  }
}

size_t PieceBytes(const Routes& routes, bool pushes) {
  return pushes ? routes.PushPieceBytes() : routes.piece_bytes;
}

std::vector<uint32_t> SegmentsOf(const ring::Placement& placement, absl::Span<const uint64_t> keys) {
  std::vector<uint32_t> segments(keys.size());
  placement.OfAll(keys.data(), keys.size(), segments.data());
  return segments;
}

// Neighbouring keys of one block of a ranged table, and so of one segment.
struct KeyRun {
  SegmentId segment;
  uint32_t first = 0;  // in the caller's order
  uint32_t count = 0;
};

// Cuts keys of a ranged table into runs; returns nothing if that would not save much, as when they are not
// sorted.
std::vector<KeyRun> CutIntoRuns(const ring::Placement& placement, absl::Span<const uint64_t> keys) {
  constexpr size_t kWorthwhile = 8;  // keys a run
  std::vector<KeyRun> runs;
  const uint64_t block_rows = placement.RowsPerBlock();
  for (uint32_t i = 0; block_rows != 0 && i < keys.size();) {
    if (runs.size() * kWorthwhile > i + kWorthwhile) return {};
    const uint64_t first = placement.BlockOf(keys[i]) * block_rows;
    // Small keys are not in the last block of all numbers, which may be shorter.
    const uint64_t rows = first == 0 ? block_rows : std::min(block_rows, uint64_t{0} - first);
    KeyRun& run = runs.emplace_back(KeyRun{.segment = placement.Of(keys[i]), .first = i});
    while (i < keys.size() && keys[i] - first < rows) ++i;
    run.count = i - run.first;
  }
  return runs;
}

// GroupKeys where the keys come in runs: whole runs are moved instead of keys.
void MoveRuns(const Routes& routes, const std::vector<KeyRun>& runs, absl::Span<const uint64_t> keys,
              absl::Span<const float> values, Batch& batch) {
  std::vector<uint32_t> segments;
  segments.reserve(runs.size());
  for (const KeyRun& run : runs) segments.push_back(run.segment.v);
  const Groups groups = Group(routes, segments);
  batch.places.resize(keys.size());
  uint32_t at = 0;
  uint32_t next = 0;  // in groups.order
  for (auto [rank, end] : groups.ends) {
    const uint32_t begin = at;
    for (; next < end; ++next) {
      const KeyRun& run = runs[groups.order[next]];
      std::memcpy(batch.keys.get() + size_t{at} * sizeof(uint64_t), keys.data() + run.first,
                  run.count * sizeof(uint64_t));
      if (!values.empty()) {
        std::memcpy(batch.values.get() + at * batch.RowBytes(), values.data() + size_t{run.first} * batch.dim,
                    run.count * batch.RowBytes());
      }
      std::iota(batch.places.begin() + at, batch.places.begin() + at + run.count, run.first);
      at += run.count;
    }
    CutKeys(batch, PieceBytes(routes, !values.empty()), routes.segments[rank], begin, at - begin);
  }
}

// A number of bytes that the compiler knows: the copy of so many is a few moves, that of any other a call.
template <size_t kBytes>
struct Width {
  constexpr operator size_t() const { return kBytes; }
};

// Calls copy(width), with a Width for rows as they are common.
template <class Copy>
void ByWidth(size_t row_bytes, const Copy& copy) {
  switch (row_bytes) {
    case 4:
      return copy(Width<4>());
    case 32:
      return copy(Width<32>());
    case 64:
      return copy(Width<64>());
    case 128:
      return copy(Width<128>());
    default:
      return copy(row_bytes);
  }
}

// Copies rows from the places that `order` names.
template <class RowBytes>
void GatherRows(const std::vector<uint32_t>& order, RowBytes row_bytes, const char* from, char* to) {
  for (const uint32_t i : order) {
    std::memcpy(to, from + size_t{i} * row_bytes, row_bytes);
    to += row_bytes;
  }
}

// The values of a push, from the places that `order` names.
void GatherValues(const std::vector<uint32_t>& order, absl::Span<const float> values, Batch& batch) {
  ByWidth(batch.RowBytes(), [&](auto row_bytes) {
    GatherRows(order, row_bytes, reinterpret_cast<const char*>(values.data()), batch.values.get());
  });
}

// The reverse: rows that lie side by side go to the places that `places` names.
template <class RowBytes>
void ScatterRows(const uint32_t* places, size_t count, RowBytes row_bytes, const char* from, char* to) {
  for (size_t i = 0; i < count; ++i) std::memcpy(to + places[i] * row_bytes, from + i * row_bytes, row_bytes);
}

// Positions in a call, to the places they have in the caller's order; none: they are the same.
void Translate(std::vector<uint32_t>& positions, absl::Span<const uint32_t> places) {
  if (places.empty()) return;
  for (uint32_t& position : positions) position = places[position];
}

// A run of rows of a ranged table within one part.
struct Run {
  SegmentId segment;
  uint64_t first = 0;
  uint32_t count = 0;
  uint32_t place = 0;
};

// Cuts the range at block boundaries, and a block where its values, which are 64 KiB or one row, do not fit a
// piece.
void CutRange(const Routes& routes, const ring::Placement& placement, uint32_t dim, const KeyRange& range,
              std::vector<Run>& runs) {
  const uint64_t most = std::max<uint64_t>(1, routes.piece_bytes / (sizeof(float) * dim));
  const std::vector<ring::Piece> pieces = placement.ForRange(range.first, range.count).value();
  for (const ring::Piece& piece : pieces) {
    for (uint64_t at = 0; at < piece.count; at += most) {
      const uint64_t first = piece.first + at;
      runs.push_back({.segment = piece.segment,
                      .first = first,
                      .count = static_cast<uint32_t>(std::min(most, piece.count - at)),
                      .place = range.place + static_cast<uint32_t>(first - range.first)});
    }
  }
}

// The batch of those runs that `order` names.
std::shared_ptr<const Batch> CopyRuns(const Routes& routes, uint32_t dim, const std::vector<Run>& runs,
                                      absl::Span<const uint32_t> order, absl::Span<const float> values,
                                      Allocate allocate) {
  auto batch = std::make_shared<Batch>();
  batch->dim = dim;
  batch->ranges = true;
  batch->entries = static_cast<uint32_t>(order.size());
  for (uint32_t i : order) batch->rows += runs[i].count;
  batch->keys = allocate(order.size() * 2 * sizeof(uint64_t));
  if (!values.empty()) batch->values = allocate(batch->rows * batch->RowBytes());
  char* key_out = batch->keys.get();
  char* value_out = batch->values.get();
  Cutter cutter(*batch, PieceBytes(routes, !values.empty()));
  for (uint32_t i : order) {
    const Run& run = runs[i];
    StoreU64(run.first, key_out);
    StoreU64(run.count, key_out + sizeof(uint64_t));
    key_out += 2 * sizeof(uint64_t);
    batch->places.push_back(run.place);
    if (value_out != nullptr) {
      const size_t bytes = run.count * batch->RowBytes();
      std::memcpy(value_out, values.data() + size_t{run.place} * dim, bytes);
      value_out += bytes;
    }
    cutter.Add(run.segment, run.count);
  }
  return batch;
}

// The runs by segment.
std::vector<uint32_t> OrderOf(const Routes& routes, const std::vector<Run>& runs) {
  std::vector<uint32_t> segments;
  segments.reserve(runs.size());
  for (const Run& run : runs) segments.push_back(run.segment.v);
  return Group(routes, segments).order;
}

// Batches of at most `bytes_max` bytes of values, or of one run.
void GroupRuns(const Routes& routes, uint32_t dim, const std::vector<Run>& runs,
               absl::Span<const float> values, Allocate allocate, uint64_t bytes_max, TakeBatch take) {
  const std::vector<uint32_t> by_segment = OrderOf(routes, runs);
  const absl::Span<const uint32_t> order = absl::MakeConstSpan(by_segment);
  size_t begin = 0;
  do {
    uint64_t bytes = 0;
    size_t end = begin;
    for (; end < order.size(); ++end) {
      bytes += uint64_t{runs[order[end]].count} * dim * sizeof(float);
      if (end > begin && bytes > bytes_max) break;
    }
    take(CopyRuns(routes, dim, runs, order.subspan(begin, end - begin), values, allocate));
    begin = end;
  } while (begin < order.size());
}

std::shared_ptr<const Batch> GroupRunsAtOnce(const Routes& routes, uint32_t dim, const std::vector<Run>& runs,
                                             absl::Span<const float> values, Allocate allocate) {
  std::shared_ptr<const Batch> all;
  GroupRuns(routes, dim, runs, values, allocate, UINT64_MAX,
            [&all](std::shared_ptr<const Batch> batch) { all = std::move(batch); });
  return all;
}

std::shared_ptr<Batch> Grouped(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                               absl::Span<const uint64_t> keys, absl::Span<const float> values,
                               Allocate allocate, absl::Span<const uint32_t> places) {
  auto batch = std::make_shared<Batch>();
  batch->dim = dim;
  batch->entries = batch->rows = static_cast<uint32_t>(keys.size());
  batch->keys = allocate(keys.size() * sizeof(uint64_t));
  if (!values.empty()) batch->values = allocate(keys.size() * batch->RowBytes());
  if (const std::vector<KeyRun> runs = CutIntoRuns(placement, keys); !runs.empty()) {
    MoveRuns(routes, runs, keys, values, *batch);
    Translate(batch->places, places);
    return batch;
  }
  Groups groups = Group(routes, SegmentsOf(placement, keys));
  GatherRows(groups.order, Width<sizeof(uint64_t)>(), reinterpret_cast<const char*>(keys.data()),
             batch->keys.get());
  if (!values.empty()) GatherValues(groups.order, values, *batch);
  uint32_t begin = 0;
  for (auto [rank, end] : groups.ends) {
    CutKeys(*batch, PieceBytes(routes, !values.empty()), routes.segments[rank], begin, end - begin);
    begin = end;
  }
  batch->places = std::move(groups.order);
  Translate(batch->places, places);
  return batch;
}

}  // namespace

Buffer AllocateFresh(size_t bytes) {
  return Buffer(new char[bytes], std::default_delete<char[]>());
}

std::shared_ptr<const Batch> GroupKeys(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                       absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                       Allocate allocate, absl::Span<const uint32_t> places) {
  return Grouped(routes, placement, dim, keys, values, allocate, places);
}

std::shared_ptr<const Batch> GroupListed(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                         absl::Span<const uint64_t> keys) {
  std::shared_ptr<Batch> batch = Grouped(routes, placement, dim, keys, {}, AllocateFresh, {});
  batch->listed = true;
  return batch;
}

std::shared_ptr<const Batch> PushListed(const Routes& routes, const Batch& listed,
                                        absl::Span<const float> values, bool reads_back, Allocate allocate) {
  auto batch = std::make_shared<Batch>();
  batch->dim = listed.dim;
  batch->entries = batch->rows = listed.rows;
  batch->keys = listed.keys;
  batch->listed = true;
  batch->values = allocate(values.size() * sizeof(float));
  GatherValues(listed.places, values, *batch);
  if (reads_back) batch->places = listed.places;
  // A push's pieces are smaller than a pull's.
  for (size_t i = 0; i < listed.pieces.size();) {
    const Batch::Piece& first = listed.pieces[i];
    uint32_t rows = 0;  // of the segment
    for (; i < listed.pieces.size() && listed.pieces[i].segment == first.segment; ++i)
      rows += listed.pieces[i].rows;
    CutKeys(*batch, routes.PushPieceBytes(), first.segment, first.first_row, rows);
  }
  return batch;
}

std::shared_ptr<const Batch> GroupRange(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                        uint64_t first, uint64_t count, absl::Span<const float> values,
                                        Allocate allocate) {
  std::vector<Run> runs;
  CutRange(routes, placement, dim, {.first = first, .count = count}, runs);
  return GroupRunsAtOnce(routes, dim, runs, values, allocate);
}

void GroupRangeInBatches(const Routes& routes, const ring::Placement& placement, uint32_t dim, uint64_t first,
                         uint64_t count, absl::Span<const float> values, Allocate allocate,
                         uint64_t bytes_max, TakeBatch take) {
  std::vector<Run> runs;
  CutRange(routes, placement, dim, {.first = first, .count = count}, runs);
  GroupRuns(routes, dim, runs, values, allocate, bytes_max, take);
}

std::shared_ptr<Batch> LendRange(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                 uint64_t first, uint64_t count, Buffer values, Allocate allocate) {
  std::vector<Run> runs;
  CutRange(routes, placement, dim, {.first = first, .count = count}, runs);
  auto batch = std::make_shared<Batch>();
  batch->dim = dim;
  batch->ranges = true;
  batch->entries = static_cast<uint32_t>(runs.size());
  batch->rows = static_cast<uint32_t>(count);
  batch->keys = allocate(runs.size() * batch->EntryBytes());
  batch->values = std::move(values);
  batch->lent = true;
  char* entry = batch->keys.get();
  for (const uint32_t i : OrderOf(routes, runs)) {
    const Run& run = runs[i];
    StoreU64(run.first, entry);
    StoreU64(run.count, entry + sizeof(uint64_t));
    entry += batch->EntryBytes();
    batch->pieces.push_back({.segment = run.segment,
                             .first_entry = static_cast<uint32_t>(batch->places.size()),
                             .entries = 1,
                             .first_row = run.place,
                             .rows = run.count});
    batch->places.push_back(run.place);
  }
  return batch;
}

Buffer CopyIfShared(const std::shared_ptr<Batch>& batch, Allocate allocate) {
  if (batch.use_count() <= 1) return nullptr;
  const size_t bytes = batch->rows * batch->RowBytes();
  Buffer copy = allocate(bytes);
  std::memcpy(copy.get(), batch->values.get(), bytes);
  return copy;
}

void TakeBack(Batch& batch, Buffer copy) {
  batch.values = std::move(copy);
  batch.lent = false;
}

std::shared_ptr<const Batch> GroupRanges(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                         absl::Span<const KeyRange> ranges, Allocate allocate) {
  std::vector<Run> runs;
  for (const KeyRange& range : ranges) CutRange(routes, placement, dim, range, runs);
  return GroupRunsAtOnce(routes, dim, runs, {}, allocate);
}

std::shared_ptr<const Batch> BatchOf(absl::Span<const Refresh> refreshes, uint32_t dim, Allocate allocate) {
  auto batch = std::make_shared<Batch>();
  batch->dim = dim;
  batch->ranges = true;
  batch->keys = allocate(refreshes.size() * batch->EntryBytes());
  for (const Refresh& refresh : refreshes) {
    char* entry = batch->keys.get() + batch->entries * batch->EntryBytes();
    StoreU64(refresh.since.v, entry);
    StoreU64(refresh.rows_max, entry + sizeof(uint64_t));
    batch->pieces.push_back({.segment = refresh.segment,
                             .first_entry = batch->entries,
                             .entries = 1,
                             .first_row = batch->rows,
                             .rows = refresh.rows_max});
    ++batch->entries;
    batch->rows += refresh.rows_max;
  }
  return batch;
}

void Scatter(const Batch& batch, absl::Span<const Stretch> pieces, const absl::Cord& values, float* out) {
  const size_t row_bytes = batch.RowBytes();
  CordReader reader(values);
  size_t at = 0;
  for (const Stretch& stretch : pieces) {
    const Batch::Piece& piece = *stretch.piece;
    reader.Skip(stretch.at - at);
    at = stretch.at + batch.ValueBytes(piece);
    const absl::string_view flat = batch.ranges ? "" : reader.TakeFlat(batch.ValueBytes(piece));
    if (!flat.empty()) {
      ByWidth(row_bytes, [&](auto width) {
        ScatterRows(batch.places.data() + piece.first_entry, piece.entries, width, flat.data(),
                    reinterpret_cast<char*>(out));
      });
      continue;
    }
    for (uint32_t i = 0; i < piece.entries; ++i) {
      const uint32_t entry = piece.first_entry + i;
      const uint64_t rows = batch.ranges ? LoadU64(batch.keys.get() + entry * batch.EntryBytes() + 8) : 1;
      reader.Read(reinterpret_cast<char*>(out + size_t{batch.places[entry]} * batch.dim), rows * row_bytes);
    }
  }
}

void Scatter(const Batch& batch, const Batch::Piece& piece, const absl::Cord& values, float* out) {
  const Stretch all{.piece = &piece};
  Scatter(batch, absl::MakeConstSpan(&all, 1), values, out);
}

}  // namespace paceline::sdk
