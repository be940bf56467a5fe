#include "libs/table/sparse_page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "libs/ring/hash.h"

namespace paceline::table {
namespace {

// Where the parts of a buffer begin: rows (aligned), keys, marks, index.
struct Layout {
  Layout(RowShape shape, size_t capacity)
      : keys((capacity * shape.bytes() + 7) / 8 * 8),
        marks(keys + capacity * sizeof(uint64_t)),
        index(marks + (capacity + 63) / 64 * sizeof(uint64_t)),
        buckets(capacity + capacity / 2 + 1),
        end(index + buckets * sizeof(uint32_t)) {}
  size_t keys, marks, index, buckets, end;
};

}  // namespace

size_t SparsePage::CapacityFor(RowShape shape, size_t rows) {
  const size_t step = std::max<size_t>(1, std::bit_floor(rows) / 4);
  return std::min((rows + step - 1) / step * step, MaxRows(shape));
}

size_t SparsePage::BufferBytes(RowShape shape, size_t capacity) {
  return capacity == 0 ? 0 : Layout(shape, capacity).end;
}

uint64_t SparsePage::HashOf(uint64_t key) const {
  return ring::Mix64(key + seed_);
}

uint32_t SparsePage::Add(uint64_t key, uint64_t hash) {
  if (rows_ == capacity_) Reallocate(CapacityFor(shape_, rows_ + 1));
  const uint32_t row = static_cast<uint32_t>(rows_++);
  keys_[row] = key;
  Index(hash, row);
  return row;
}

void SparsePage::AddPacked(uint64_t key, uint64_t hash, const void* packed) {
  SetRow(Add(key, hash), packed);
}

void SparsePage::Fill(KeyView keys, absl::Span<const uint64_t> hashes, ValueView rows) {
  if (keys.empty()) return;
  std::memcpy(values_, rows.data(), keys.size() * shape_.bytes());
  std::memcpy(keys_, keys.data(), keys.size() * sizeof(uint64_t));
  rows_ = keys.size();
  for (uint32_t row = 0; row < rows_; ++row) Index(hashes[row], row);
}

void SparsePage::Index(uint64_t hash, uint32_t row) {
  uint32_t bucket = FirstBucket(hash);
  while (index_[bucket] != 0) {
    if (++bucket == buckets_) bucket = 0;
  }
  index_[bucket] = Tag(hash) | (row + 1);
}

void SparsePage::Reallocate(size_t capacity) {
  const Layout layout(shape_, capacity);
  Buffer buffer = Allocate(layout.end);
  std::byte* base = buffer.get();
  if (rows_ > 0) {
    std::memcpy(base, values_, rows_ * shape_.bytes());
    std::memcpy(base + layout.keys, keys_, rows_ * sizeof(uint64_t));
  }
  std::memset(base + layout.marks, 0, layout.end - layout.marks);
  buffer_ = std::move(buffer);
  buffer_bytes_ = layout.end;
  values_ = reinterpret_cast<float*>(base);
  keys_ = reinterpret_cast<uint64_t*>(base + layout.keys);
  marks_ = reinterpret_cast<uint64_t*>(base + layout.marks);
  index_ = reinterpret_cast<uint32_t*>(base + layout.index);
  buckets_ = static_cast<uint32_t>(layout.buckets);
  capacity_ = static_cast<uint32_t>(capacity);
  for (uint32_t row = 0; row < rows_; ++row) Index(HashOf(keys_[row]), row);
}

void SparsePage::Split(int ring_bits, SparsePage& upper) {
  const uint64_t bit = uint64_t{1} << (63 - range_.depth);
  ++range_.depth;
  upper.range_ = {range_.start | bit, range_.depth};
  upper.version_ = version_;
  upper.installed_ = installed_;
  const auto moves = [&](size_t row) { return ((HashOf(keys_[row]) << ring_bits) & bit) != 0; };
  size_t moving = 0;
  for (size_t row = 0; row < rows_; ++row) moving += moves(row) ? 1 : 0;
  if (moving == 0) return;

  upper.Reallocate(CapacityFor(shape_, moving));
  size_t kept = 0;
  for (size_t row = 0; row < rows_; ++row) {
    if (moves(row)) {
      upper.AddPacked(keys_[row], HashOf(keys_[row]), Values(row));
    } else {
      keys_[kept] = keys_[row];
      if (kept != row) SetRow(kept, Values(row));
      ++kept;
    }
  }
  rows_ = kept;
  if (kept == 0) return Clear();
  Reallocate(CapacityFor(shape_, kept));
}

void SparsePage::Clear() {
  rows_ = capacity_ = buckets_ = 0;
  index_ = &no_index_;
  buffer_.reset();
  buffer_bytes_ = 0;
}

void SparsePage::Reset(Lsn version, size_t rows) {
  Clear();
  if (rows > 0) Reallocate(CapacityFor(shape_, rows));
  version_ = installed_ = version;
}

}  // namespace paceline::table
