#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "libs/table/page.h"
#include "libs/table/views.h"

namespace paceline::table {

// A page of a sparse table: rows [w …][slots …] in order of birth, their keys, and an open-addressed index
// from key to row with linear probing. It begins small and grows by at most a quarter at a time.
//
// All look-ups take the key's hash too: Mix64(table, key). The index uses its low 48 bits, since the high
// bits are the same for all keys of a page.
class SparsePage : public Page {
 public:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  // Empty; allocates no buffer before the first row. `seed` is Mix64(table).
  SparsePage(RowShape shape, uint64_t seed, PageRange range) : Page(shape, range), seed_(seed) {
    row_stride_ = static_cast<uint32_t>(shape.floats());
    slot_stride_ = shape.dim;
  }

  // The most rows of this shape that a page may have.
  static size_t MaxRows(RowShape shape) { return kPageBytes / (sizeof(uint64_t) + shape.bytes()); }
  // The capacity of a page with `rows` rows. It does not depend on the order of births.
  static size_t CapacityFor(RowShape shape, size_t rows);
  // The bytes of a buffer for `capacity` rows: at most capacity * RowBytesBound() + kBufferSlack.
  static size_t BufferBytes(RowShape shape, size_t capacity);
  // A row, its key, one and a half index entries and its mark.
  static size_t RowBytesBound(RowShape shape) { return shape.bytes() + 8 + 6 + 1; }
  static constexpr size_t kBufferSlack = 32;

  bool full() const { return rows_ == MaxRows(shape_); }

  // The row of `key`, or kNoRow.
  uint32_t Find(uint64_t key, uint64_t hash) const {
    uint32_t bucket = FirstBucket(hash);
    for (uint32_t row = Candidate(hash, bucket); row != kNoRow; row = Candidate(hash, ++bucket)) {
      if (keys_[row] == key) return row;
    }
    return kNoRow;
  }
  // Find in four steps, for batches: each step uses memory that the step before prefetched.
  void PrefetchPage() const { __builtin_prefetch(&version_); }
  void PrefetchIndex(uint64_t hash) const { __builtin_prefetch(index_ + FirstBucket(hash)); }
  // Returns the row that `key` very likely has, if it has one. Prefetches at most two cache lines; prefetch
  // the rest of a wider row when it is nearly its turn.
  uint32_t PrefetchRow(uint64_t hash, bool with_slots) const {
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

  // Adds a row with uninitialised values and slots. REQUIRES: !full(), and `key` has no row.
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
  // Drops all rows and the buffer.
  void Clear();
  // Gives the page a new buffer and copies the first `rows_` rows to it.
  void Reallocate(size_t capacity);
  uint64_t HashOf(uint64_t key) const;

  // The index of all pages without rows; nobody writes to it.
  static inline uint32_t no_index_ = 0;

  uint32_t* index_ = &no_index_;
  uint32_t buckets_ = 0;
  uint32_t capacity_ = 0;
  uint64_t seed_;
};

}  // namespace paceline::table
