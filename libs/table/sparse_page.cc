#include "libs/table/sparse_page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "libs/base/cache_line.h"
#include "libs/ring/hash.h"
#include "libs/table/page_memory.h"

namespace paceline::table {
namespace {

size_t BucketsFor(size_t capacity) {
  return capacity + capacity / 2 + 1;
}

// Where the parts of a buffer begin: rows (aligned), keys, marks, index.
struct Layout {
  Layout(RowShape shape, size_t capacity)
      : keys((capacity * shape.bytes() + 7) / 8 * 8),
        marks(keys + capacity * sizeof(uint64_t)),
        index(marks + Page::MarkBytes(capacity)),
        buckets(BucketsFor(capacity)),
        end(index + buckets * sizeof(uint32_t)) {}
  size_t keys, marks, index, buckets, end;
};

// The same of narrow rows: buckets (aligned), the row of the key that free ones have, marks.
struct NarrowLayout {
  NarrowLayout(RowShape shape, size_t capacity, size_t rows_per_bucket)
      : buckets(BucketsFor(capacity) / rows_per_bucket + 1),
        free_key(buckets * kCacheLineBytes),
        marks((free_key + sizeof(uint64_t) + shape.bytes() + 7) / 8 * 8),
        end(marks + Page::MarkBytes(marks / sizeof(float))) {}
  size_t buckets, free_key, marks, end;
};

}  // namespace

SparsePage::SparsePage(RowShape shape, uint64_t seed, PageRange range) : Page(shape, range), seed_(seed) {
  in_buckets_ = Narrow(shape);
  row_stride_ = in_buckets_ ? 1 : static_cast<uint32_t>(shape.floats());
  slot_stride_ = shape.dim;
  Clear();
}

size_t SparsePage::CapacityFor(RowShape shape, size_t rows) {
  const size_t step = std::max<size_t>(1, std::bit_floor(rows) / 4);
  return std::min((rows + step - 1) & ~(step - 1), MaxRows(shape));
}

size_t SparsePage::BufferBytes(RowShape shape, size_t capacity) {
  if (capacity == 0) return 0;
  return Narrow(shape) ? NarrowLayout(shape, capacity, RowsPerBucket(shape)).end
                       : Layout(shape, capacity).end;
}

size_t SparsePage::RowBytesBound(RowShape shape) {
  if (!Narrow(shape)) return shape.bytes() + sizeof(uint64_t) + 6 + 1;
  // One and a half of a row's share of a bucket, and a bit for each of its floats.
  return (3 * (kAlignment + 2) / RowsPerBucket(shape) + 1) / 2;
}

uint64_t SparsePage::HashOf(uint64_t key) const {
  return ring::Mix64(key + seed_);
}

uint32_t SparsePage::Add(uint64_t key, uint64_t hash) {
  if (rows_ == capacity_) Grow(rows_ + 1);
  if (in_buckets_) return AddNarrow(key, hash);
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
  if (in_buckets_) {
    const size_t floats = shape_.floats();
    for (size_t i = 0; i < keys.size(); ++i) {
      AddPacked(keys[i], hashes[i], rows.subview(i * floats, floats).data());
    }
    return;
  }
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

uint32_t SparsePage::FindNarrow(uint64_t key, uint64_t hash) const {
  switch (NarrowStride(shape_)) {
    case 3:
      return FindNarrow<3>(key, hash);
    case 4:
      return FindNarrow<4>(key, hash);
    default:
      return FindNarrow<5>(key, hash);
  }
}

uint32_t SparsePage::AddNarrow(uint64_t key, uint64_t hash) {
  size_t number = NumberOfFreeKey();
  if (key != kFreeKey) {
    const size_t stride = NarrowStride(shape_);
    const size_t last = (RowsPerBucket(shape_) - 1) * stride;
    size_t bucket = FirstBucket(hash);
    number = bucket * kBucketFloats + kKeyFloats;
    while (BucketKey(number + last) != kFreeKey) {
      if (++bucket >= buckets_) bucket = 0;
      number = bucket * kBucketFloats + kKeyFloats;
    }
    while (BucketKey(number) != kFreeKey) number += stride;
  }
  std::memcpy(Values(number) - kKeyFloats, &key, sizeof(key));
  ++rows_;
  return static_cast<uint32_t>(number);
}

template <class Keeps>
void SparsePage::ReallocateNarrow(size_t capacity, const Keeps& keeps) {
  SparsePage old(shape_, seed_, range_);
  old.buffer_.swap(buffer_);
  std::swap(old.values_, values_);
  std::swap(old.buckets_, buckets_);
  std::swap(old.rows_, rows_);

  const NarrowLayout layout(shape_, capacity, RowsPerBucket(shape_));
  buffer_ = AllocatePageBuffer(layout.end);
  buffer_bytes_ = layout.end;
  std::byte* const base = buffer_.get();
  std::memset(base, 0xff, layout.free_key);  // kFreeKey everywhere
  std::memset(base + layout.free_key, 0, layout.end - layout.free_key);
  values_ = reinterpret_cast<float*>(base);
  marks_ = reinterpret_cast<uint64_t*>(base + layout.marks);
  buckets_ = static_cast<uint32_t>(layout.buckets);
  capacity_ = static_cast<uint32_t>(capacity);
  old.ForEachRow([&](size_t row) {
    const uint64_t key = old.Key(row);
    if (keeps(key)) AddPacked(key, HashOf(key), old.Values(row));
  });
}

void SparsePage::Grow(size_t rows) {
  const size_t capacity = GrownCapacity(rows);
  Reallocate(capacity);
  ahead_ = capacity > CapacityFor(shape_, rows);
}

size_t SparsePage::GrownCapacity(size_t rows) const {
  if (!MemoryIsPlenty()) return CapacityFor(shape_, rows);
  const size_t most = MaxRows(shape_);
  return rows > most / 3 ? most : 2 * rows;
}

void SparsePage::Reallocate(size_t capacity) {
  if (in_buckets_) return ReallocateNarrow(capacity, [](uint64_t) { return true; });
  const Layout layout(shape_, capacity);
  PageBuffer buffer = AllocatePageBuffer(layout.end);
  std::byte* base = buffer.get();
  if (rows_ > 0) {
    std::memcpy(base, values_, rows_ * shape_.bytes());
    std::memcpy(base + layout.keys, keys_, rows_ * sizeof(uint64_t));
  }
  buffer_ = std::move(buffer);
  buffer_bytes_ = layout.end;
  values_ = reinterpret_cast<float*>(base);
  keys_ = reinterpret_cast<uint64_t*>(base + layout.keys);
  marks_ = reinterpret_cast<uint64_t*>(base + layout.marks);
  index_ = reinterpret_cast<uint32_t*>(base + layout.index);
  buckets_ = static_cast<uint32_t>(layout.buckets);
  capacity_ = static_cast<uint32_t>(capacity);
  IndexAll();
}

void SparsePage::IndexAll() {
  std::memset(marks_, 0, MarkBytes(capacity_));
  std::memset(index_, 0, buckets_ * sizeof(uint32_t));
  for (uint32_t row = 0; row < rows_; ++row) Index(HashOf(keys_[row]), row);
}

void SparsePage::Split(int ring_bits, SparsePage& upper) {
  const uint64_t bit = uint64_t{1} << (63 - range_.depth);
  ++range_.depth;
  upper.range_ = {range_.start | bit, range_.depth};
  upper.version_ = version_;
  upper.installed_ = installed_;
  const auto moves = [&](uint64_t key) { return ((HashOf(key) << ring_bits) & bit) != 0; };
  size_t moving = 0;
  ForEachRow([&](size_t row) { moving += moves(Key(row)) ? 1 : 0; });
  if (moving == 0) return;

  upper.Grow(moving);
  if (in_buckets_) {
    ForEachRow([&](size_t row) {
      if (moves(Key(row))) upper.AddPacked(Key(row), HashOf(Key(row)), Values(row));
    });
  } else {
    MoveRows(moves, upper);
  }
  if (moving == rows_) return Clear();
  const size_t capacity = GrownCapacity(rows_ - moving);
  if (in_buckets_) {
    ReallocateNarrow(capacity, [&](uint64_t key) { return !moves(key); });
  } else {
    rows_ -= moving;
    // A page that was full, and may grow ahead, will need all of its room again.
    capacity > CapacityFor(shape_, rows_) ? IndexAll() : Reallocate(capacity);
  }
  ahead_ = capacity_ > CapacityFor(shape_, rows_);
}

// Rows from the end fill the gaps, so that few of those that stay move.
template <class Moves>
void SparsePage::MoveRows(const Moves& moves, SparsePage& upper) {
  const auto move = [&](size_t row) { upper.AddPacked(keys_[row], HashOf(keys_[row]), Values(row)); };
  size_t row = 0;
  size_t end = rows_;
  while (true) {
    while (row < end && !moves(keys_[row])) ++row;
    while (row < end && moves(keys_[end - 1])) move(--end);
    if (row == end) return;
    move(row);
    keys_[row] = keys_[--end];
    SetRow(row++, Values(end));
  }
}

void SparsePage::Clear() {
  rows_ = capacity_ = buckets_ = 0;
  index_ = &no_index_;
  if (in_buckets_) values_ = reinterpret_cast<float*>(no_bucket_);
  buffer_.reset();
  buffer_bytes_ = 0;
  ahead_ = false;
}

void SparsePage::Reset(Lsn version, size_t rows) {
  Clear();
  if (rows > 0) Reallocate(CapacityFor(shape_, rows));
  version_ = installed_ = version;
}

}  // namespace paceline::table
