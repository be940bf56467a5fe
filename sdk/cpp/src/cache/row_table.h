#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/attributes.h"
#include "libs/base/cache_line.h"
#include "libs/base/ids.h"
#include "libs/table/bucket_match.h"
#include "sdk/cpp/src/cache/slabs.h"

namespace paceline::sdk {

// Some rows of one table, by key. A look-up that copies a row of 16 floats touches two lines of the
// processor's cache:
//
// - *The index* is open-addressed, in buckets of a cache line with room for four entries. A key that finds
//   its bucket full lies in the next one that is not. An entry has all that a read must know of a row.
// - *The values* lie in slabs, in the order of the rows' numbers. When a row is removed, the last one moves
//   to its place, so that memory behind the last row can be given back.
// - *The rest*, which reads need not know, lies in slabs of its own in the same order.
//
// Beside what RowBytes counts there is room in the last chunk of both slabs. Single owner, no locks.
class RowTable {
 public:
  static constexpr int kNumberBits = 28;
  // REQUIRES of whoever adds rows: there are fewer.
  static constexpr uint32_t kRowsMax = (uint32_t{1} << (kNumberBits - 1)) - 1;

  struct Entry {
    uint64_t key = 0;
    uint64_t row : kNumberBits = 0;    // its number, 1 or more; 0: here is no row
    uint64_t stamp : kNumberBits = 0;  // what its values are as of (Stamps); 0: it has none

    uint64_t has_own : 1 = 0;    // the values hold every push up to Rest::pushed
    uint64_t used : 1 = 0;       // since the CLOCK hand last passed
    uint64_t told : 1 = 0;       // each change since its version is told of, as long as the set is there
    uint64_t due : 1 = 0;        // an update has left it out, and none has brought it since
    uint64_t keeps_own : 1 = 0;  // its pushes since what the values hold are kept, to be applied again
    uint64_t unread : 3 = 0;     // how often it was sent since it was read, or fetched

    bool has_values() const { return stamp != 0; }
  };
  struct Rest {
    uint64_t key = 0;
    PartNumber pushed = 0;  // the newest part that touched the row
    SegmentId segment;
    uint32_t set = 0;  // the change that puts it into the set; 0: none, kQueued: one that is not taken yet
  };
  // Valid until a row is added or removed.
  struct Row {
    Entry* entry = nullptr;  // nullptr: there is no such row
    Rest* rest = nullptr;
    float* values = nullptr;

    explicit operator bool() const { return entry != nullptr; }
  };

  explicit RowTable(uint32_t dim);
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  // The memory that a row takes, at the average load of the index.
  static uint64_t RowBytes(uint32_t dim);

  // nullptr: there is no such row.
  Entry* FindEntry(uint64_t key) { return FindFrom(BucketOf(key), key); }
  Row Find(uint64_t key) {
    Entry* const entry = FindEntry(key);
    return entry == nullptr ? Row() : RowOf(*entry);
  }
  Row RowOf(Entry& entry) { return {.entry = &entry, .rest = &RestOf(entry), .values = ValuesOf(entry)}; }
  float* ValuesOf(const Entry& entry) { return reinterpret_cast<float*>(values_.At(entry.row)); }
  Rest& RestOf(const Entry& entry) { return *reinterpret_cast<Rest*>(rests_.At(entry.row)); }

  // Inlined at any price: GCC takes a call that does nothing but prefetch for one that does nothing.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchEntry(uint64_t key) const {
    __builtin_prefetch(&buckets_[BucketOf(key)]);
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchValues(const Entry& entry) const {
    const char* const values = values_.At(entry.row);
    __builtin_prefetch(values);
    for (size_t at = kCacheLineBytes; at < prefetched_; at += kCacheLineBytes)
      __builtin_prefetch(values + at);
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchRest(const Entry& entry) const {
    __builtin_prefetch(rests_.At(entry.row), 1);
  }

  // What FindEach asks for before it is visited.
  enum class Ahead { kValues, kValuesAndRest };
  // Calls visit(i, entry, values) for i = from .. to - 1 in this order; the entry is nullptr if key_at(i) has
  // no row. Prefetches what the rows ahead need. REQUIRES: `visit` neither adds nor removes rows.
  template <Ahead kAhead, class KeyAt, class Visit>
  void FindEach(uint32_t from, uint32_t to, KeyAt key_at, Visit visit);

  // Adds a row without values. Those that it gets have undefined content. REQUIRES: there is none with this
  // key.
  Row Add(uint64_t key, SegmentId segment);
  void Remove(const Entry& entry);
  void Clear();

  // REQUIRES: `visit`, which gets a Row, neither adds or removes rows.
  template <class Visit>
  void ForEach(Visit visit) {
    for (size_t slot = 0; slot < Slots() && size_ > 0; ++slot) {
      if (Slot(slot).row != 0) visit(RowOf(Slot(slot)));
    }
  }

 private:
  static constexpr uint32_t kFour = 4;
  // Of an entry, which begins with its key, as a row of a page's bucket does.
  static constexpr size_t kEntryFloats = sizeof(Entry) / sizeof(float);
  static const float* FloatsOf(const Entry* four) { return reinterpret_cast<const float*>(four); }
  struct alignas(kCacheLineBytes) Bucket {
    Entry entries[kFour];  // the rows come first
  };

  // By a product with the golden ratio, which spreads keys that follow each other, or lie equally far apart,
  // evenly: hardly one of these finds its bucket full (Knuth, "Sorting and Searching", 6.4).
  uint64_t BucketOf(uint64_t key) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
    return (((key ^ (key >> 32)) * kGolden >> 32) * bucket_count_) >> 32;
  }
  Entry* FindFrom(uint64_t bucket, uint64_t key) {
    for (;;) {
      Entry* const four = buckets_[bucket].entries;
      if (const uint32_t matching = table::MatchingEntries<kEntryFloats>(FloatsOf(four), key);
          matching != 0) {
        // One without a row comes behind those with one: then there is none with this key.
        Entry& entry = four[std::countr_zero(matching) / kEntryFloats];
        return entry.row == 0 ? nullptr : &entry;
      }
      if (four[kFour - 1].row == 0) return nullptr;
      if (++bucket == bucket_count_) bucket = 0;
    }
  }
  size_t Slots() const { return bucket_count_ * kFour; }
  Entry& Slot(size_t slot) { return buckets_[slot / kFour].entries[slot % kFour]; }
  size_t Next(size_t slot) const { return slot + 1 == Slots() ? 0 : slot + 1; }
  // How far a search goes on from `from` to get to `to`.
  size_t Distance(size_t from, size_t to) const { return to >= from ? to - from : to + Slots() - from; }
  Entry& FreeSlotFor(uint64_t key);
  void Rehash(size_t buckets);
  void Vacate(size_t slot);

  static Bucket no_rows_;  // nobody writes to it

  const size_t row_bytes_;
  // Bytes. The hardware prefetches the rest of a large row, which is read in sequence.
  const size_t prefetched_;
  uint32_t size_ = 0;
  size_t bucket_count_ = 1;
  Bucket* buckets_ = &no_rows_;
  std::unique_ptr<Bucket[]> owned_buckets_;
  Slabs values_;
  Slabs rests_;
};

template <RowTable::Ahead kAhead, class KeyAt, class Visit>
void RowTable::FindEach(uint32_t from, uint32_t to, KeyAt key_at, Visit visit) {
  // So many rows are between two steps of one.
  constexpr uint32_t kApart = 8;
  struct Step {
    uint64_t bucket;
    Entry* entry;
    float* values;
  } steps[kApart];
  const uint32_t rows = to - from;
  const uint32_t apart = rows < kApart ? rows : kApart;
  for (uint32_t step = 0; step < rows + 2 * apart; ++step) {
    if (const uint32_t visited = step - 2 * apart; visited < rows) {
      const Step& ready = steps[visited % kApart];
      visit(from + visited, ready.entry, ready.values);
    }
    if (const uint32_t found = step - apart; found < rows) {
      Step& next = steps[found % kApart];
      next.entry = FindFrom(next.bucket, key_at(from + found));
      next.values = nullptr;
      if (next.entry != nullptr) {
        next.values = ValuesOf(*next.entry);
        PrefetchValues(*next.entry);
        if (kAhead == Ahead::kValuesAndRest) PrefetchRest(*next.entry);
      }
    }
    if (step < rows) {
      const uint64_t bucket = BucketOf(key_at(from + step));
      __builtin_prefetch(&buckets_[bucket]);
      steps[step % kApart].bucket = bucket;
    }
  }
}

}  // namespace paceline::sdk
