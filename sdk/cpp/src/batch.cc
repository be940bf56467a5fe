#include "sdk/cpp/src/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "libs/base/little_endian.h"

namespace paceline::sdk {
namespace {

static_assert(std::endian::native == std::endian::little,
              "keys and values are copied as they are, so the machine must be little-endian as the wire is");

// Which entries go where: `order` lists them grouped by rank, and those of rank r end at ends[i] for the i-th
// rank that occurs.
struct Groups {
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, uint32_t>> ends;  // (rank, end in order), ascending
};

Groups CountingSort(const std::vector<uint32_t>& ranks, size_t rank_count) {
  std::vector<uint32_t> next(rank_count + 1, 0);
  for (uint32_t rank : ranks) ++next[rank + 1];
  Groups groups;
  for (size_t rank = 0; rank < rank_count; ++rank) {
    const bool occurs = next[rank + 1] != 0;
    next[rank + 1] += next[rank];
    if (occurs) groups.ends.emplace_back(static_cast<uint32_t>(rank), next[rank + 1]);
  }
  groups.order.resize(ranks.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) groups.order[next[ranks[i]]++] = i;
  return groups;
}

// For a few keys on a ring of many segments, where passing over the segments would cost more.
Groups ComparisonSort(const std::vector<uint32_t>& ranks) {
  Groups groups;
  groups.order.resize(ranks.size());
  std::iota(groups.order.begin(), groups.order.end(), 0);
  std::stable_sort(groups.order.begin(), groups.order.end(),
                   [&ranks](uint32_t a, uint32_t b) { return ranks[a] < ranks[b]; });
  for (uint32_t i = 0; i < groups.order.size(); ++i) {
    const uint32_t rank = ranks[groups.order[i]];
    if (groups.ends.empty() || groups.ends.back().first != rank) groups.ends.emplace_back(rank, i);
    groups.ends.back().second = i + 1;
  }
  return groups;
}

Groups Group(const std::vector<uint32_t>& ranks, size_t rank_count) {
  return ranks.size() * 4 < rank_count ? ComparisonSort(ranks) : CountingSort(ranks, rank_count);
}

// Cuts grouped entries into pieces. Add must be called for every entry in grouped order.
class Cutter {
 public:
  explicit Cutter(Batch& batch) : batch_(batch) {}

  void Add(SegmentId segment, uint32_t rows) {
    const size_t bytes = batch_.EntryBytes() + rows * batch_.RowBytes();
    const bool fits =
        !batch_.pieces.empty() && batch_.pieces.back().segment == segment && bytes_ + bytes <= kPieceBytes;
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
  size_t bytes_ = 0;
  uint32_t entry_ = 0;
  uint32_t row_ = 0;
};

// A run of rows of a ranged table within one part.
struct Run {
  SegmentId segment;
  uint64_t first = 0;
  uint32_t count = 0;
};

// Cuts the range at block boundaries. A block's values are 64 KiB or one row, so every run fits a piece.
std::vector<Run> CutRange(const ring::Placement& placement, uint64_t first, uint64_t count) {
  std::vector<Run> runs;
  const std::vector<ring::Piece> pieces = placement.ForRange(first, count).value();
  for (const ring::Piece& piece : pieces) {
    runs.push_back(
        {.segment = piece.segment, .first = piece.first, .count = static_cast<uint32_t>(piece.count)});
  }
  return runs;
}

// Copies a Cord from front to back.
class Reader {
 public:
  explicit Reader(const absl::Cord& cord) : chunk_(cord.chunk_begin()), end_(cord.chunk_end()) {}

  void Read(char* to, size_t bytes) {
    while (bytes > 0) {
      if (rest_.empty()) {
        if (chunk_ == end_) return;
        rest_ = *chunk_;
        ++chunk_;
        continue;
      }
      const size_t n = std::min(bytes, rest_.size());
      std::memcpy(to, rest_.data(), n);
      rest_.remove_prefix(n);
      to += n;
      bytes -= n;
    }
  }

 private:
  absl::Cord::ChunkIterator chunk_;
  absl::Cord::ChunkIterator end_;
  absl::string_view rest_;
};

}  // namespace

Buffer AllocateFresh(size_t bytes) {
  return Buffer(new char[bytes], std::default_delete<char[]>());
}

std::shared_ptr<const Batch> GroupKeys(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                       absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                       Allocate allocate) {
  auto batch = std::make_shared<Batch>();
  batch->dim = dim;
  batch->entries = batch->rows = static_cast<uint32_t>(keys.size());
  std::vector<uint32_t> ranks(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) ranks[i] = routes.rank[placement.Of(keys[i]).v];
  Groups groups = Group(ranks, routes.segments.size());

  batch->keys = allocate(keys.size() * sizeof(uint64_t));
  char* key_out = batch->keys.get();
  for (uint32_t i : groups.order) {
    StoreU64(keys[i], key_out);
    key_out += sizeof(uint64_t);
  }
  if (!values.empty()) {
    const size_t row_bytes = batch->RowBytes();
    batch->values = allocate(keys.size() * row_bytes);
    char* value_out = batch->values.get();
    for (uint32_t i : groups.order) {
      std::memcpy(value_out, values.data() + size_t{i} * dim, row_bytes);
      value_out += row_bytes;
    }
  }
  Cutter cutter(*batch);
  uint32_t begin = 0;
  for (auto [rank, end] : groups.ends) {
    for (; begin < end; ++begin) cutter.Add(routes.segments[rank], 1);
  }
  batch->places = std::move(groups.order);
  return batch;
}

std::shared_ptr<const Batch> GroupRange(const Routes& routes, const ring::Placement& placement, uint32_t dim,
                                        uint64_t first, uint64_t count, absl::Span<const float> values,
                                        Allocate allocate) {
  auto batch = std::make_shared<Batch>();
  const std::vector<Run> runs = CutRange(placement, first, count);
  batch->dim = dim;
  batch->ranges = true;
  batch->entries = static_cast<uint32_t>(runs.size());
  batch->rows = static_cast<uint32_t>(count);
  std::vector<uint32_t> ranks;
  for (const Run& run : runs) ranks.push_back(routes.rank[run.segment.v]);
  const Groups groups = Group(ranks, routes.segments.size());

  batch->keys = allocate(runs.size() * 2 * sizeof(uint64_t));
  if (!values.empty()) batch->values = allocate(count * batch->RowBytes());
  char* key_out = batch->keys.get();
  char* value_out = batch->values.get();
  Cutter cutter(*batch);
  for (uint32_t i : groups.order) {
    const Run& run = runs[i];
    StoreU64(run.first, key_out);
    StoreU64(run.count, key_out + sizeof(uint64_t));
    key_out += 2 * sizeof(uint64_t);
    const auto place = static_cast<uint32_t>(run.first - first);
    batch->places.push_back(place);
    if (value_out != nullptr) {
      const size_t bytes = run.count * batch->RowBytes();
      std::memcpy(value_out, values.data() + size_t{place} * dim, bytes);
      value_out += bytes;
    }
    cutter.Add(run.segment, run.count);
  }
  return batch;
}

void Scatter(const Batch& batch, const Batch::Piece& piece, const absl::Cord& values, float* out) {
  Reader reader(values);
  const size_t row_bytes = batch.RowBytes();
  for (uint32_t i = 0; i < piece.entries; ++i) {
    const uint32_t entry = piece.first_entry + i;
    const uint64_t rows = batch.ranges ? LoadU64(batch.keys.get() + entry * batch.EntryBytes() + 8) : 1;
    reader.Read(reinterpret_cast<char*>(out + size_t{batch.places[entry]} * batch.dim), rows * row_bytes);
  }
}

}  // namespace paceline::sdk
