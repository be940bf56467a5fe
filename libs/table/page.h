#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "libs/base/ids.h"
#include "libs/table/bucket_match.h"
#include "libs/table/page_memory.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

// Pages: up to 64 KiB of rows of one table in one segment, with the version last applied to them. Rows leave
// memory, for a disk or another shard, page by page. Which page holds a row follows from its key and the
// segment's log alone. The two kinds are in sparse_page.h and ranged_page.h.
namespace paceline::table {

// The dimensions of a row.
struct RowShape {
  uint32_t dim = 1;
  uint32_t slots_per_value = 0;

  static RowShape Of(const Schema& schema) { return {schema.dim, SlotsPerValue(schema.rule)}; }
  size_t floats() const { return size_t{dim} * (1 + slots_per_value); }
  size_t bytes() const { return floats() * sizeof(float); }
};

// The range of a page. Sparse tables: the keys whose place (store.h) begins with the first `depth` bits of
// `start`, whose other bits are 0. Ranged tables: the block that begins with key `start`; depth is 0.
struct PageRange {
  uint64_t start = 0;
  int depth = 0;

  // Sparse tables: true if `place` lies in the range.
  bool Covers(uint64_t place) const { return depth == 0 || (place ^ start) >> (64 - depth) == 0; }
  // Sparse tables: the first place after the range; 0 if it is the last range.
  uint64_t end() const { return depth == 0 ? 0 : start + (uint64_t{1} << (64 - depth)); }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};

// A page's content in canonical form: pages of equal content have equal images, whatever their history.
struct PageImage {
  PageRange range;
  Lsn version;
  std::vector<uint64_t> keys;  // ascending
  std::vector<float> rows;     // of each key: dim values, then their slots, then their second slots
  friend bool operator==(const PageImage&, const PageImage&) = default;
};

// The same where it lies, at any address; the bytes must outlive the view.
struct PageView {
  PageRange range;
  Lsn version;
  KeyView keys;
  ValueView rows;

  static PageView Of(const PageImage& image) { return {image.range, image.version, image.keys, image.rows}; }
};

// Common to both kinds of page. Pages belong to a TableStore, and only it changes them; only the store's
// owner may read them.
//
// Rows have numbers, in no meaningful order: 0 .. rows()-1 or, of narrow ones (sparse_page.h), others below
// numbers(). A row keeps its number until the page is split or, if births_renumber(), gets another row.
class Page {
 public:
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  const PageRange& range() const { return range_; }
  // The version of the last record that changed the page, or the one that it was split from; 0: none has. So
  // it may differ between members of a segment; rows do not.
  Lsn version() const { return version_; }
  size_t rows() const { return rows_; }
  // Bytes of memory held beside the object itself.
  size_t buffer_bytes() const { return buffer_bytes_; }

  // All rows have smaller numbers.
  size_t numbers() const { return narrow_ ? PlaceOfFreeKey() + 1 : rows_; }
  bool births_renumber() const { return narrow_; }
  // Calls visit(key, number) for each row, in no meaningful order.
  template <class Visit>
  void ForEachRow(const Visit& visit) const;

  // REQUIRES for all taking a row: it is the number of one.
  //
  // The dim values of a row. Its slots are slot_stride() floats further on, its second slots twice that.
  const float* Values(size_t row) const { return values_ + row * size_t{row_stride_}; }
  size_t slot_stride() const { return slot_stride_; }
  // Floats from a row's values to those of the next row.
  size_t row_stride() const { return row_stride_; }

  // Floats of a row: values and slots.
  size_t floats() const { return shape_.floats(); }

  // Copies a row's values and slots to `packed`: all values, then their slots, then their second slots.
  void CopyRow(size_t row, float* packed) const;
  // A copy of the content. O(n log n) in its rows.
  PageImage Image() const;

  // A hash of the rows' keys, values and slots, bit for bit, and of nothing else. The sum over all pages
  // modulo 2^64 does not depend on how rows are spread over pages.
  uint64_t ContentHash() const;

  // For the store:

  // Bytes of the marks of `rows` rows: whole words.
  static size_t MarkBytes(size_t rows) { return (rows + 63) / 64 * sizeof(uint64_t); }
  float* Values(size_t row) { return values_ + row * size_t{row_stride_}; }
  // Replaces a row's values and slots by those at `packed`, which may be unaligned.
  void SetRow(size_t row, const void* packed);
  // Fetches what an update or a look-up needs of the object itself. Inlined at any price, like those of
  // SparsePage: GCC takes a call that does nothing but prefetch for one that does nothing.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchPage() const { __builtin_prefetch(&version_); }
  // Notes that a record has changed the page.
  void Touch(Lsn version) { version_ = version; }
  // True if the page came with that record's updates in it: it was installed as of `version` or later.
  bool CameWith(Lsn version) const { return version <= installed_; }
  // Sets a row's mark, a bit free for the code that goes through a batch; true if it was set already.
  bool Mark(size_t row) {
    uint64_t& word = marks_[row / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    const bool before = (word & bit) != 0;
    word |= bit;
    return before;
  }
  // Clears the mark of `row`, and those of some other rows.
  void ClearMarksAround(size_t row) { marks_[row / 64] = 0; }

 protected:
  // Alignment in bytes of the first row: a cache line.
  static constexpr size_t kAlignment = kPageAlignment;

  Page(RowShape shape, PageRange range) : shape_(shape), range_(range) {}
  ~Page() = default;

  // The index of a sparse page are buckets, cache lines with as many entries as find room. An entry is a key
  // and what lies behind it: the row, or its number if rows are too wide. An entry that is free has kFreeKey;
  // that of this key itself lies behind all buckets. The place of an entry is where, in floats, what is
  // behind its key begins.
  static_assert(kAlignment == kBucketFloats * sizeof(float));
  static constexpr size_t kNumberFloats = sizeof(uint32_t) / sizeof(float);
  uint64_t KeyAt(size_t place) const {
    uint64_t key;
    std::memcpy(&key, index_ + place - kKeyFloats, sizeof(key));
    return key;
  }
  // The floats of an entry: 3, 4 or 5.
  size_t EntryFloats() const { return kKeyFloats + (narrow_ ? shape_.floats() : kNumberFloats); }
  size_t PlaceOfFreeKey() const { return buckets_ * kBucketFloats + kKeyFloats; }
  bool HasFreeKey() const { return rows_ > 0 && KeyAt(PlaceOfFreeKey()) == kFreeKey; }
  // The number of the row whose entry is there.
  uint32_t RowAt(const float* entry) const {
    if (narrow_) return static_cast<uint32_t>(entry - index_);
    uint32_t row;
    std::memcpy(&row, entry, sizeof(row));
    return row;
  }

  RowShape shape_;
  PageRange range_;
  PageBuffer buffer_;  // owns the memory that the pointers below point into
  size_t buffer_bytes_ = 0;
  size_t rows_ = 0;
  // From here on all that a look-up or an update of existing rows touches: one cache line.
  alignas(kAlignment) Lsn version_;
  Lsn installed_;             // updates up to here were in the page when it came
  uint32_t row_stride_ = 0;   // floats from a row to the next
  uint32_t slot_stride_ = 0;  // floats from a row's values to its slots
  float* values_ = nullptr;
  float* index_ = nullptr;     // nullptr: consecutive keys from range_.start on
  uint64_t* marks_ = nullptr;  // one bit a row
  uint32_t buckets_ = 0;       // of the index
  bool narrow_ = false;        // rows lie in the index: values_ == index_
  bool ahead_ = false;         // of a sparse page: it grew while memory was plenty
};

template <class Visit>
void Page::ForEachRow(const Visit& visit) const {
  if (index_ == nullptr) {
    for (size_t row = 0; row < rows_; ++row) visit(range_.start + row, row);
    return;
  }
  const auto visit_entry = [&](size_t place) { visit(KeyAt(place), size_t{RowAt(index_ + place)}); };
  const size_t floats = EntryFloats();
  for (size_t bucket = 0; bucket < buckets_; ++bucket) {
    const size_t end = (bucket + 1) * kBucketFloats;
    for (size_t at = bucket * kBucketFloats; at + floats <= end; at += floats) {
      if (KeyAt(at + kKeyFloats) == kFreeKey) break;
      visit_entry(at + kKeyFloats);
    }
  }
  if (HasFreeKey()) visit_entry(PlaceOfFreeKey());
}

}  // namespace paceline::table
