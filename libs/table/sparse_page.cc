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

// Where the parts of a buffer begin: rows that are not narrow (aligned), buckets (aligned), the entry of the
// key that free ones have, marks.
struct Layout {
  Layout(RowShape shape, size_t capacity) {
    const bool narrow = SparsePage::Narrow(shape);
    const size_t floats = SparsePage::EntryFloats(shape);
    const size_t entries = capacity + capacity / (narrow ? 2 : 3) + 1;
    buckets = entries / (kBucketFloats / floats) + 1;
    if (!narrow) index = (capacity * shape.bytes() + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
    free_key = index + buckets * kCacheLineBytes;
    marks = (free_key + floats * sizeof(float) + 7) / 8 * 8;
    end = marks + Page::MarkBytes(narrow ? marks / sizeof(float) : capacity);
  }

  size_t index = 0;
  size_t buckets, free_key, marks, end;
};

}  // namespace

SparsePage::SparsePage(RowShape shape, uint64_t seed, PageRange range) : Page(shape, range), seed_(seed) {
  narrow_ = Narrow(shape);
  row_stride_ = narrow_ ? 1 : static_cast<uint32_t>(shape.floats());
  slot_stride_ = shape.dim;
  Clear();
}

size_t SparsePage::CapacityFor(RowShape shape, size_t rows) {
  const size_t step = std::max<size_t>(1, std::bit_floor(rows) / 4);
  return std::min((rows + step - 1) & ~(step - 1), MaxRows(shape));
}

size_t SparsePage::BufferBytes(RowShape shape, size_t capacity) {
  return capacity == 0 ? 0 : Layout(shape, capacity).end;
}

size_t SparsePage::RowBytesBound(RowShape shape) {
  // One and a half, or one and a third, of an entry's share of a bucket, and a bit for each of its floats.
  const size_t share = kAlignment / (kBucketFloats / EntryFloats(shape));
  return Narrow(shape) ? (3 * (share + 2) + 1) / 2 : shape.bytes() + (4 * (share + 1) + 2) / 3 + 1;
}

uint64_t SparsePage::HashOf(uint64_t key) const {
  return ring::Mix64(key + seed_);
}

uint32_t SparsePage::Find(uint64_t key, uint64_t hash) const {
  const auto row_at = [this](const float* entry) { return entry == nullptr ? kNoRow : RowAt(entry); };
  switch (Page::EntryFloats()) {
    case 3:
      return row_at(FindEntry<3>(key, hash));
    case 4:
      return row_at(FindEntry<4>(key, hash));
    default:
      return row_at(FindEntry<5>(key, hash));
  }
}

uint32_t SparsePage::Add(uint64_t key, uint64_t hash) {
  if (rows_ == capacity_) Grow(rows_ + 1);
  const auto row = static_cast<uint32_t>(rows_++);
  float* const entry = AddEntry(key, hash);
  if (narrow_) return RowAt(entry);
  std::memcpy(entry, &row, sizeof(row));
  return row;
}

void SparsePage::AddPacked(uint64_t key, uint64_t hash, const void* packed) {
  SetRow(Add(key, hash), packed);
}

void SparsePage::Fill(KeyView keys, absl::Span<const uint64_t> hashes, ValueView rows) {
  if (keys.empty()) return;
  if (narrow_) {
    const size_t floats = shape_.floats();
    for (size_t i = 0; i < keys.size(); ++i) {
      AddPacked(keys[i], hashes[i], rows.subview(i * floats, floats).data());
    }
    return;
  }
  std::memcpy(values_, rows.data(), keys.size() * shape_.bytes());
  for (size_t i = 0; i < keys.size(); ++i) Add(keys[i], hashes[i]);
}

float* SparsePage::AddEntry(uint64_t key, uint64_t hash) {
  size_t place = PlaceOfFreeKey();
  if (key != kFreeKey) {
    const size_t floats = Page::EntryFloats();
    const size_t last = (kBucketFloats / floats - 1) * floats;
    size_t bucket = FirstBucket(hash);
    place = bucket * kBucketFloats + kKeyFloats;
    while (KeyAt(place + last) != kFreeKey) {
      if (++bucket >= buckets_) bucket = 0;
      place = bucket * kBucketFloats + kKeyFloats;
    }
    while (KeyAt(place) != kFreeKey) place += floats;
  }
  std::memcpy(index_ + place - kKeyFloats, &key, sizeof(key));
  return index_ + place;
}

std::vector<uint64_t> SparsePage::KeysByRow() const {
  std::vector<uint64_t> keys(rows_);
  ForEachRow([&](uint64_t key, size_t row) { keys[row] = key; });
  return keys;
}

void SparsePage::IndexAll(absl::Span<const uint64_t> keys) {
  for (uint32_t row = 0; row < keys.size(); ++row) {
    std::memcpy(AddEntry(keys[row], HashOf(keys[row])), &row, sizeof(row));
  }
}

void SparsePage::ClearIndexAndMarks() {
  const Layout layout(shape_, capacity_);
  std::byte* const base = buffer_.get();
  std::memset(base + layout.index, 0xff, layout.free_key - layout.index);  // kFreeKey everywhere
  std::memset(base + layout.free_key, 0, layout.end - layout.free_key);
}

void SparsePage::TakeNewBuffer(size_t capacity) {
  const Layout layout(shape_, capacity);
  buffer_ = AllocatePageBuffer(layout.end);
  buffer_bytes_ = layout.end;
  std::byte* const base = buffer_.get();
  values_ = reinterpret_cast<float*>(base);
  index_ = reinterpret_cast<float*>(base + layout.index);
  marks_ = reinterpret_cast<uint64_t*>(base + layout.marks);
  buckets_ = static_cast<uint32_t>(layout.buckets);
  capacity_ = static_cast<uint32_t>(capacity);
  ClearIndexAndMarks();
}

template <class Keeps>
void SparsePage::ReallocateNarrow(size_t capacity, const Keeps& keeps) {
  SparsePage old(shape_, seed_, range_);
  old.buffer_.swap(buffer_);
  std::swap(old.values_, values_);
  std::swap(old.index_, index_);
  std::swap(old.buckets_, buckets_);
  std::swap(old.rows_, rows_);
  TakeNewBuffer(capacity);
  old.ForEachRow([&](uint64_t key, size_t row) {
    if (keeps(key)) AddPacked(key, HashOf(key), old.Values(row));
  });
}

void SparsePage::ReallocateWide(size_t capacity, absl::Span<const uint64_t> keys) {
  const PageBuffer old = std::move(buffer_);
  const float* const rows = values_;
  TakeNewBuffer(capacity);
  if (!keys.empty()) std::memcpy(values_, rows, keys.size() * shape_.bytes());
  IndexAll(keys);
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
  if (narrow_) return ReallocateNarrow(capacity, [](uint64_t) { return true; });
  ReallocateWide(capacity, KeysByRow());
}

void SparsePage::Split(int ring_bits, SparsePage& upper) {
  const uint64_t bit = uint64_t{1} << (63 - range_.depth);
  ++range_.depth;
  upper.range_ = {range_.start | bit, range_.depth};
  upper.version_ = version_;
  upper.installed_ = installed_;
  const auto moves = [&](uint64_t key) { return ((HashOf(key) << ring_bits) & bit) != 0; };
  size_t moving = 0;
  ForEachRow([&](uint64_t key, size_t) { moving += moves(key) ? 1 : 0; });
  if (moving == 0) return;

  upper.Grow(moving);
  const size_t staying = rows_ - moving;
  narrow_ ? SplitNarrow(moves, staying, upper) : SplitWide(moves, staying, upper);
  if (staying == 0) return Clear();
  ahead_ = capacity_ > CapacityFor(shape_, rows_);
}

template <class Moves>
void SparsePage::SplitNarrow(const Moves& moves, size_t staying, SparsePage& upper) {
  ForEachRow([&](uint64_t key, size_t row) {
    if (moves(key)) upper.AddPacked(key, HashOf(key), Values(row));
  });
  if (staying > 0) ReallocateNarrow(GrownCapacity(staying), [&](uint64_t key) { return !moves(key); });
}

// Rows from the end fill the gaps, so that few of those that stay move.
template <class Moves>
void SparsePage::SplitWide(const Moves& moves, size_t staying, SparsePage& upper) {
  std::vector<uint64_t> keys = KeysByRow();
  const auto move = [&](size_t row) { upper.AddPacked(keys[row], HashOf(keys[row]), Values(row)); };
  size_t row = 0;
  size_t end = rows_;
  while (true) {
    while (row < end && !moves(keys[row])) ++row;
    while (row < end && moves(keys[end - 1])) move(--end);
    if (row == end) break;
    move(row);
    keys[row] = keys[--end];
    SetRow(row++, Values(end));
  }
  keys.resize(staying);
  rows_ = staying;
  const size_t capacity = GrownCapacity(staying);
  if (capacity > CapacityFor(shape_, staying)) {
    // It grows ahead, and will need all of its room again.
    ClearIndexAndMarks();
    IndexAll(keys);
  } else if (staying > 0) {
    ReallocateWide(capacity, keys);
  }
}

void SparsePage::Clear() {
  rows_ = capacity_ = buckets_ = 0;
  index_ = reinterpret_cast<float*>(no_bucket_);
  if (narrow_) values_ = index_;
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
