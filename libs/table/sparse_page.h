#pragma once

#include <cstddef>
#include <cstdint>

#include "libs/table/page.h"

namespace paceline::table {

// A page of a sparse table: rows [w …][slots …] in order of birth, their keys beside them, and an index from
// key to row, open-addressed with linear probing. It begins small and grows by at most a quarter at a time.
//
// All look-ups take the key's hash beside it: Mix64(table, key), of which the index uses the low 48 bits (the
// high ones are alike for all keys of a page).
class SparsePage : public Page {
 public:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  // Empty; holds no buffer before the first row comes. `seed` is Mix64(table).
  SparsePage(RowShape shape, uint64_t seed, PageRange range) : Page(shape, range), seed_(seed) {
    row_stride_ = shape.floats();
    slot_stride_ = shape.dim;
  }

  // The most rows of a shape that a page may have.
  static size_t MaxRows(RowShape shape) { return kPageBytes / (sizeof(uint64_t) + shape.bytes()); }
  // The capacity a page with `rows` rows has. It does not depend on how they came.
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
  // Find in three steps, for batches: each works on memory that the one before has asked for.
  void PrefetchIndex(uint64_t hash) const { __builtin_prefetch(index_ + FirstBucket(hash)); }
  // Answers with the row that the key, if it has one, has in all likelihood. Asks for two lines of memory at
  // most; of wider rows the rest is better asked for when it is nearly their turn.
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

  // Adds a row, its values and slots not initialised. REQUIRES: !full(), and `key` has none.
  uint32_t Add(uint64_t key, uint64_t hash);
  // The same with content, as CopyRow made it.
  void AddPacked(uint64_t key, uint64_t hash, const float* packed);

  // Moves the half whose next bit of place (Mix64(table, key) << ring_bits) is 1 to `upper`, which is empty
  // and covers it afterwards, and keeps the other half. REQUIRES: range().depth < 64.
  void Split(int ring_bits, SparsePage& upper);

  // Forgets all rows and counts from here on as a page that came as of `version`; has room for `rows`, as
  // a page of so many has.
  void Reset(Lsn version, size_t rows = 0);

 private:
  static constexpr size_t kLineFloats = kAlignment / sizeof(float);

  // An index entry: 0, or 16 bits of hash and the row plus 1.
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) << 16; }
  uint32_t FirstBucket(uint64_t hash) const {
    return static_cast<uint32_t>((uint64_t{static_cast<uint32_t>(hash)} * buckets_) >> 32);
  }
  // The row of the first entry at `bucket` or after it, up to a free one, that has the hash's tag; `bucket`
  // is moved there. An index of no buckets has one entry, which is free.
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
  // Back to no rows and no buffer.
  void Clear();
  // Gives the page a new buffer and copies the first `rows_` rows to it.
  void Reallocate(size_t capacity);
  uint64_t HashOf(uint64_t key) const;

  uint32_t* index_ = &no_index_;
  uint32_t buckets_ = 0;
  uint32_t no_index_ = 0;
  uint32_t capacity_ = 0;
  uint64_t seed_;
};

}  // namespace paceline::table
