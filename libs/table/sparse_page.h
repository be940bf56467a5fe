#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/types/span.h"
#include "libs/table/bucket_match.h"
#include "libs/table/page.h"
#include "libs/table/views.h"

namespace paceline::table {

// A page of a sparse table: rows [w …][slots …] and the index that finds them by their keys. It begins small
// and grows by at most a quarter at a time, or two or three times as large where memory is plenty. There are
// two layouts:
//
// - *Narrow* rows lie in the index, each behind its key. A third of the room stays free.
// - Others lie side by side, and the index has their numbers. A quarter of its room stays free.
//
// A bucket of the index is a cache line, so a look-up of a narrow row costs one cache miss, that of another
// two; seldom one more: an entry that finds its bucket full lies in the next one that is not.
//
// All look-ups take the key's hash too: Mix64(table, key). They use its low 32 bits, since the high bits are
// the same for all keys of a page.
class SparsePage : public Page {
 public:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  // Empty; allocates no buffer before the first row. `seed` is Mix64(table).
  SparsePage(RowShape shape, uint64_t seed, PageRange range);

  // True if rows of this shape lie in the index.
  static bool Narrow(RowShape shape) { return shape.bytes() <= kNarrowBytes; }

  // The most rows of this shape that a page may have.
  static size_t MaxRows(RowShape shape) { return kPageBytes / (sizeof(uint64_t) + shape.bytes()); }
  // The capacity of a page with `rows` rows, unless memory is plenty. It does not depend on the order of
  // births.
  static size_t CapacityFor(RowShape shape, size_t rows);
  // The bytes of a buffer for `capacity` rows: at most capacity * RowBytesBound() + kBufferSlack.
  static size_t BufferBytes(RowShape shape, size_t capacity);
  // Of a row, its share of the index, and its marks.
  static size_t RowBytesBound(RowShape shape);
  static constexpr size_t kBufferSlack = 192;

  // The rows for which there is room. A birth that changes it may give narrow rows other numbers, also where
  // numbers() stays.
  size_t capacity() const { return capacity_; }
  // Those of buffer_bytes() that its rows need by CapacityFor.
  size_t needed_bytes() const {
    return ahead_ ? std::min(buffer_bytes_, BufferBytes(shape_, CapacityFor(shape_, rows_))) : buffer_bytes_;
  }
  bool full() const { return rows_ == MaxRows(shape_); }

  // The row of `key`, or kNoRow.
  uint32_t Find(uint64_t key, uint64_t hash) const;
  // The same in steps, for batches: each step uses memory that the step before prefetched. After
  // PrefetchPage: the bucket where the entry most likely lies (FindInBuckets), and the fetching of the one
  // after it.
  ABSL_ATTRIBUTE_ALWAYS_INLINE float* Bucket(uint64_t hash) {
    return index_ + FirstBucket(hash) * kBucketFloats;
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchNextBucket(uint64_t hash) const {
    const uint32_t next = FirstBucket(hash) + 1;
    __builtin_prefetch(index_ + (next < buckets_ ? next : 0) * kBucketFloats);
  }
  // The entry of `key`, what lies behind it there, or nullptr. REQUIRES: kEntryFloats is EntryFloats(shape).
  template <size_t kEntryFloats>
  float* FindEntry(uint64_t key, uint64_t hash) const {
    if (key == kFreeKey) return HasFreeKey() ? index_ + PlaceOfFreeKey() : nullptr;
    constexpr size_t kLast = (kBucketFloats / kEntryFloats - 1) * kEntryFloats + kKeyFloats;
    for (uint32_t bucket = FirstBucket(hash);;) {
      const size_t first = bucket * kBucketFloats;
      const uint32_t matching = MatchingEntries<kEntryFloats>(index_ + first, key);
      if (matching != 0) return index_ + first + kKeyFloats + std::countr_zero(matching);
      if (KeyAt(first + kLast) == kFreeKey) return nullptr;
      if (++bucket >= buckets_) bucket = 0;
    }
  }
  // The row of an entry, and its values.
  using Page::RowAt;
  ABSL_ATTRIBUTE_ALWAYS_INLINE float* ValuesAt(float* entry) {
    return narrow_ ? entry : Values(RowAt(entry));
  }
  // The floats of an entry of the index: 3, 4 or 5.
  static size_t EntryFloats(RowShape shape) {
    return kKeyFloats + (Narrow(shape) ? shape.floats() : kNumberFloats);
  }

  // Where the next row of a page whose rows are not narrow will lie, after PrefetchPage.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchBirth() const {
    if (narrow_ || rows_ == capacity_) return;
    const float* const row = Values(rows_);
    const size_t floats = std::min<size_t>(row_stride_, 4 * kLineFloats);
    for (size_t at = 0; at < floats; at += kLineFloats) __builtin_prefetch(row + at, /*write*/ 1);
  }

  // Adds a row with uninitialised values and slots; returns its number. REQUIRES: !full(), and `key` has no
  // row.
  uint32_t Add(uint64_t key, uint64_t hash);
  // The same with content in the layout of CopyRow.
  void AddPacked(uint64_t key, uint64_t hash, const void* packed);
  // Adds all rows of a page at once. REQUIRES: it has none, and room for them (Reset); the keys differ.
  void Fill(KeyView keys, absl::Span<const uint64_t> hashes, ValueView rows);

  // Moves the rows whose next bit of place (Mix64(table, key) << ring_bits) is 1 to `upper`, which is empty
  // and covers that half afterwards. Keeps the others. REQUIRES: range().depth < 64.
  void Split(int ring_bits, SparsePage& upper);

  // Drops all rows; the page then counts as one that came as of `version`. Reserves room for `rows`, as a
  // page of that many has.
  void Reset(Lsn version, size_t rows = 0);

 private:
  static constexpr size_t kLineFloats = kAlignment / sizeof(float);
  // The largest narrow row: one value with two slots, or three values. Too few of wider ones share a line.
  static constexpr size_t kNarrowBytes = 12;

  uint32_t FirstBucket(uint64_t hash) const {
    return static_cast<uint32_t>((uint64_t{static_cast<uint32_t>(hash)} * buckets_) >> 32);
  }
  // Writes the key where there is room for its entry; returns the entry.
  float* AddEntry(uint64_t key, uint64_t hash);
  // Of rows that are not narrow: their keys by number, and their entries anew.
  std::vector<uint64_t> KeysByRow() const;
  void IndexAll(absl::Span<const uint64_t> keys);
  void ClearIndexAndMarks();
  // Moves the rows for which `moves` is true to `upper`, which has room for them; `staying` stay. The caller
  // clears a page that has none left.
  template <class Moves>
  void SplitNarrow(const Moves& moves, size_t staying, SparsePage& upper);
  template <class Moves>
  void SplitWide(const Moves& moves, size_t staying, SparsePage& upper);
  // Drops all rows and the buffer.
  void Clear();
  // Gives the page a new buffer with room for `rows` rows, and more where memory is plenty. Copies the first
  // `rows_` rows to it.
  void Grow(size_t rows);
  size_t GrownCapacity(size_t rows) const;
  void Reallocate(size_t capacity);
  // The same of narrow rows: those for which `keeps` is true.
  template <class Keeps>
  void ReallocateNarrow(size_t capacity, const Keeps& keeps);
  // The same of others, whose keys are `keys`.
  void ReallocateWide(size_t capacity, absl::Span<const uint64_t> keys);
  // Replaces the buffer by one for so many rows, with an empty index and rows that are not set.
  void TakeNewBuffer(size_t capacity);
  uint64_t HashOf(uint64_t key) const;

  // The only bucket of all pages without rows; nobody writes to it.
  alignas(kAlignment) static inline uint64_t no_bucket_[kAlignment / sizeof(kFreeKey)] = {
      kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey};

  uint32_t capacity_ = 0;
  uint64_t seed_;
};

}  // namespace paceline::table
