#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/types/span.h"
#include "libs/table/bucket_match.h"
#include "libs/table/page.h"
#include "libs/table/views.h"

namespace paceline::table {

// A page of a sparse table: rows [w …][slots …] and what finds them by their keys. It begins small and grows
// by at most a quarter at a time, or two or three times as large where memory is plenty. There are two
// layouts:
//
// - *Narrow* rows lie in buckets, each row behind its key. A bucket is a cache line, so a look-up costs one
//   cache miss, seldom two: a row that finds its bucket full lies in the next one that is not. A third of the
//   room stays free.
// - Others lie without gaps, beside their keys and an open-addressed index from hash to row with linear
//   probing: three cache misses.
//
// All look-ups take the key's hash too: Mix64(table, key). They use its low 48 bits, since the high bits are
// the same for all keys of a page.
class SparsePage : public Page {
 public:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  // Empty; allocates no buffer before the first row. `seed` is Mix64(table).
  SparsePage(RowShape shape, uint64_t seed, PageRange range);

  // True if rows of this shape lie in buckets.
  static bool Narrow(RowShape shape) { return shape.bytes() <= kNarrowBytes; }

  // The most rows of this shape that a page may have.
  static size_t MaxRows(RowShape shape) { return kPageBytes / (sizeof(uint64_t) + shape.bytes()); }
  // The capacity of a page with `rows` rows, unless memory is plenty. It does not depend on the order of
  // births.
  static size_t CapacityFor(RowShape shape, size_t rows);
  // The bytes of a buffer for `capacity` rows: at most capacity * RowBytesBound() + kBufferSlack.
  static size_t BufferBytes(RowShape shape, size_t capacity);
  // Of its buckets; or a row, its key, and one and a half index entries. And its marks.
  static size_t RowBytesBound(RowShape shape);
  static constexpr size_t kBufferSlack = 160;

  // The rows for which there is room. A birth that changes it may give narrow rows other numbers, also where
  // numbers() stays.
  size_t capacity() const { return capacity_; }
  // Those of buffer_bytes() that its rows need by CapacityFor.
  size_t needed_bytes() const {
    return ahead_ ? std::min(buffer_bytes_, BufferBytes(shape_, CapacityFor(shape_, rows_))) : buffer_bytes_;
  }
  bool full() const { return rows_ == MaxRows(shape_); }

  // The row of `key`, or kNoRow.
  uint32_t Find(uint64_t key, uint64_t hash) const {
    if (in_buckets_) return FindNarrow(key, hash);
    uint32_t bucket = FirstBucket(hash);
    for (uint32_t row = Candidate(hash, bucket); row != kNoRow; row = Candidate(hash, ++bucket)) {
      if (keys_[row] == key) return row;
    }
    return kNoRow;
  }
  // The same in steps, for batches: each step uses memory that the step before prefetched. Of narrow rows,
  // after PrefetchPage: the bucket where the row most likely lies (FindInBuckets), and the fetching of the
  // one after it.
  ABSL_ATTRIBUTE_ALWAYS_INLINE float* Bucket(uint64_t hash) {
    return values_ + FirstBucket(hash) * kBucketFloats;
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchNextBucket(uint64_t hash) const {
    const uint32_t next = FirstBucket(hash) + 1;
    __builtin_prefetch(values_ + (next < buckets_ ? next : 0) * kBucketFloats);
  }
  // REQUIRES: kStride is NarrowStride of the page's shape.
  template <size_t kStride>
  uint32_t FindNarrow(uint64_t key, uint64_t hash) const {
    if (key == kFreeKey) return HasFreeKey() ? static_cast<uint32_t>(NumberOfFreeKey()) : kNoRow;
    constexpr size_t kLast = (kBucketFloats / kStride - 1) * kStride + kKeyFloats;
    for (uint32_t bucket = FirstBucket(hash);;) {
      const size_t first = bucket * kBucketFloats;
      const uint32_t matching = MatchingRows<kStride>(values_ + first, key);
      if (matching != 0) return static_cast<uint32_t>(first + kKeyFloats + std::countr_zero(matching));
      if (BucketKey(first + kLast) == kFreeKey) return kNoRow;
      if (++bucket >= buckets_) bucket = 0;
    }
  }
  uint32_t FindNarrow(uint64_t key, uint64_t hash) const;
  // Values(row) of a narrow row, whose number is its offset; and the number of a row whose values are there.
  float* NarrowValues(uint32_t row) { return values_ + row; }
  uint32_t NarrowRow(const float* values) const { return static_cast<uint32_t>(values - values_); }
  // The floats of a narrow row and its key: 3, 4 or 5.
  static size_t NarrowStride(RowShape shape) { return kKeyFloats + shape.floats(); }
  // … and of others, after PrefetchPage:
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchIndex(uint64_t hash) const {
    __builtin_prefetch(index_ + FirstBucket(hash));
  }
  // Returns the row that `key` very likely has, if it has one. Prefetches its key and at most its first
  // kRowPrefetched bytes; prefetch the rest of a wider row when it is nearly its turn.
  static constexpr size_t kRowPrefetched = 2 * kPageAlignment;
  ABSL_ATTRIBUTE_ALWAYS_INLINE uint32_t PrefetchRow(uint64_t hash, bool with_slots) const {
    uint32_t bucket = FirstBucket(hash);
    const uint32_t row = Candidate(hash, bucket);
    if (row != kNoRow) {
      __builtin_prefetch(keys_ + row);
      __builtin_prefetch(Values(row));
      const size_t floats = with_slots ? row_stride_ : slot_stride_;
      if (floats > kLineFloats) __builtin_prefetch(Values(row) + kLineFloats);
    }
    return row;
  }
  uint32_t Find(uint64_t key, uint64_t hash, uint32_t likely) const {
    return likely == kNoRow || keys_[likely] == key ? likely : Find(key, hash);
  }

  // Where the next row of a page whose rows are not narrow will lie, after PrefetchPage.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchBirth() const {
    if (in_buckets_ || rows_ == capacity_) return;
    const float* const row = Values(rows_);
    const size_t floats = std::min<size_t>(row_stride_, 4 * kLineFloats);
    for (size_t at = 0; at < floats; at += kLineFloats) __builtin_prefetch(row + at, /*write*/ 1);
    __builtin_prefetch(keys_ + rows_, 1);
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
  // So many narrow rows find room in a bucket.
  static size_t RowsPerBucket(RowShape shape) { return kBucketFloats / NarrowStride(shape); }

  // An index entry: 0, or 16 bits of hash and the row plus 1.
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) << 16; }
  uint32_t FirstBucket(uint64_t hash) const {
    return static_cast<uint32_t>((uint64_t{static_cast<uint32_t>(hash)} * buckets_) >> 32);
  }
  // The row of the first entry at or after `bucket`, up to a free one, that has the hash's tag; moves
  // `bucket` there. An index without buckets has one entry, which is free.
  uint32_t Candidate(uint64_t hash, uint32_t& bucket) const {
    const uint32_t tag = Tag(hash);
    for (;; ++bucket) {
      if (bucket >= buckets_) bucket = 0;
      const uint32_t entry = index_[bucket];
      if (entry == 0) return kNoRow;
      if ((entry & 0xffff0000) == tag) return (entry & 0xffff) - 1;
    }
  }
  void Index(uint64_t hash, uint32_t row);
  // Makes the index and the marks anew. REQUIRES: a page whose rows are not narrow.
  void IndexAll();
  // Adds the rows for which `moves` is true to `upper`; the others get the first numbers. REQUIRES: rows are
  // not narrow; the caller sets rows_ and makes the index anew.
  template <class Moves>
  void MoveRows(const Moves& moves, SparsePage& upper);
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
  // Writes the key where its row finds room; returns the number.
  uint32_t AddNarrow(uint64_t key, uint64_t hash);
  uint64_t HashOf(uint64_t key) const;

  // The index, and the only bucket, of all pages without rows; nobody writes to them.
  static inline uint32_t no_index_ = 0;
  alignas(kAlignment) static inline uint64_t no_bucket_[kAlignment / sizeof(kFreeKey)] = {
      kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey, kFreeKey};

  uint32_t* index_ = &no_index_;
  uint32_t capacity_ = 0;
  uint64_t seed_;
};

}  // namespace paceline::table
