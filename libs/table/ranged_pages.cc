#include "libs/table/ranged_pages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/placement.h"
#include "libs/table/batch.h"
#include "libs/table/invariant.h"
#include "libs/table/table_copy.h"

namespace paceline::table {

RangedPages::RangedPages(TableId table, const Schema& schema, int ring_bits)
    : shape_(RowShape::Of(schema)),
      table_rows_(schema.rows),
      rows_per_block_(
          ring::Placement::Ranged(table, ring_bits, schema.rows, schema.dim).value().RowsPerBlock()),
      init_row_(schema),
      blocks_(ring_bits) {}

size_t RangedPages::RowsOfBlock(uint64_t block) const {
  return std::min(rows_per_block_.by(), table_rows_ - block * rows_per_block_.by());
}

void RangedPages::NoSuchRow(uint64_t key) const {
  Broken(absl::StrCat("key ", key, " of a table of ", table_rows_, " rows"));
}

RangedPage* RangedPages::Find(uint64_t key, BlockMap::Cursor& cursor) const {
  if (key >= table_rows_) NoSuchRow(key);
  return blocks_.Find(rows_per_block_(key), cursor);
}

RangedPage* RangedPages::Find(uint64_t key) const {
  BlockMap::Cursor cursor;
  return Find(key, cursor);
}

RangedPage* RangedPages::FindOrBear(uint64_t key) {
  BlockMap::Cursor cursor;
  return FindOrBear(key, cursor);
}

RangedPage* RangedPages::FindOrBear(uint64_t key, BlockMap::Cursor& cursor) {
  RangedPage* page = Find(key, cursor);
  if (page != nullptr) return page;
  page = MakeBlock(rows_per_block_(key));
  page->ForEachRow(
      [&](uint64_t born, size_t row) { init_row_(born, page->Values(row), page->slot_stride()); });
  return page;
}

RangedPage* RangedPages::MakeBlock(uint64_t block) {
  auto page = std::make_unique<RangedPage>(shape_, block * rows_per_block_.by(), RowsOfBlock(block));
  rows_ += page->rows();
  page_bytes_ += sizeof(RangedPage) + page->buffer_bytes();
  if (copy_ != nullptr) copy_->OnNewPage(*page);
  return blocks_.Add(block, std::move(page));
}

size_t RangedPages::RowInBlock(uint64_t first, uint64_t count) const {
  const uint64_t row = first % rows_per_block_.by();
  const uint64_t end = RowsOfBlock(rows_per_block_(first));
  if (row < end && count <= end - row) return row;
  Broken(absl::StrCat("keys ", first, " and ", count - 1, " more are not in one block of ",
                      rows_per_block_.by(), " rows of a table of ", table_rows_));
}

// Keys often come sorted, with many of one block in sequence: the block is looked up once for all of them.
template <class FindBlock, class Visit>
bool RangedPages::FindEach(FindBlock find, KeyView keys, Visit visit) const {
  RangedPage* page = nullptr;
  uint64_t first = 0;
  uint64_t rows = 0;  // of the block at hand; 0: none
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t key = keys[i];
    if (key - first >= rows) {
      page = find(key);  // also checks that the key is below table_rows_
      const uint64_t block = rows_per_block_(key);
      first = block * rows_per_block_.by();
      rows = RowsOfBlock(block);
    }
    if (!visit(i, page, static_cast<uint32_t>(key - first))) return false;
  }
  return true;
}

template <class FindBlock>
void RangedPages::LocateBy(FindBlock find, KeyView keys, RowRef* refs) const {
  RowFinder find_row;
  (void)FindEach(find, keys, [&](size_t i, RangedPage* page, uint32_t row) {
    refs[i] = {page, row};
    PrefetchRow(refs[i], sizeof(float),
                find_row);  // the rest of a wider row is prefetched when it is nearly its turn
    return true;
  });
}

template <class Value, class FindBlock, class Take>
size_t RangedPages::FindValuesBy(FindBlock find, KeyView keys, Take take) const {
  Value* rows[kFewKeys];
  for (size_t begin = 0; begin < keys.size();) {
    const size_t few = std::min(kFewKeys, keys.size() - begin);
    const bool all =
        FindEach(find, keys.subview(begin, few), [&rows](size_t j, RangedPage* page, uint32_t row) {
          if (page == nullptr) return false;
          rows[j] = page->Values(0) + row;
          __builtin_prefetch(rows[j]);
          return true;
        });
    if (!all) return begin;
    take(begin, absl::Span<Value* const>(rows, few));
    begin += few;
  }
  return keys.size();
}

// Rows are taken while the next ones are fetched: a core waits for a dozen cache misses at a time, and has
// something to do meanwhile. The pages that these lie in are found and fetched before.
template <class Value, class Enter, class Take>
size_t RangedPages::FindRowsBy(Enter enter, KeyView keys, Take take) const {
  constexpr size_t kAhead = 32;
  constexpr size_t kAtOnce = 8;
  BlockMap::Cursor cursor;
  RowRef places[2][kAhead];
  Value* rows[kAhead];
  const auto find_places = [&](size_t begin) {
    RowRef* const to = places[begin / kAhead % 2];
    const size_t end = std::min(begin + kAhead, keys.size());
    for (size_t i = begin; i < end; ++i) {
      const uint64_t key = keys[i];
      if (key >= table_rows_) NoSuchRow(key);
      const uint64_t block = rows_per_block_(key);
      RangedPage* const page = blocks_.Find(block, cursor);
      if (page != nullptr) page->PrefetchPage();
      to[i - begin] = {page, static_cast<uint32_t>(key - block * rows_per_block_.by())};
    }
  };
  size_t found = 0;
  size_t taken = 0;
  const auto take_some = [&](size_t count) {
    take(taken, absl::Span<Value* const>(&rows[taken % kAhead], count));
    taken += count;
  };
  if (!keys.empty()) find_places(0);
  for (; found < keys.size(); ++found) {
    if (found % kAtOnce == 0) {
      if (found % kAhead == 0 && found + kAhead < keys.size()) find_places(found + kAhead);
      if (found - taken == kAhead) take_some(kAtOnce);
    }
    const RowRef place = places[found / kAhead % 2][found % kAhead];
    if (place.page == nullptr || !enter(*place.page)) break;
    rows[found % kAhead] = place.page->Values(place.row);
    Prefetch(rows[found % kAhead], shape_.dim * sizeof(float));
  }
  while (taken < found) take_some(std::min(kAtOnce, found - taken));
  return found;
}

size_t RangedPages::FindValues(KeyView keys, TakeValues take) const {
  if (shape_.dim != 1) return FindRowsBy<const float>([](const Page&) { return true; }, keys, take);
  BlockMap::Cursor cursor;
  return FindValuesBy<const float>([&](uint64_t key) { return Find(key, cursor); }, keys, take);
}

size_t RangedPages::FindToUpdate(KeyView keys, Lsn version, TakeToUpdate take) {
  if (shape_.slots_per_value != 0) return 0;
  const auto enter = EnterFor(version);
  if (shape_.dim != 1) return FindRowsBy<float>(enter, keys, take);
  BlockMap::Cursor cursor;
  const auto find = [&](uint64_t key) {
    RangedPage* page = Find(key, cursor);
    return page != nullptr && enter(*page) ? page : nullptr;
  };
  return FindValuesBy<float>(find, keys, take);
}

void RangedPages::Locate(KeyView keys, RowRef* refs) const {
  BlockMap::Cursor cursor;
  LocateBy([&](uint64_t key) { return Find(key, cursor); }, keys, refs);
}

void RangedPages::LocateOrBear(KeyView keys, Lsn, RowRef* refs) {
  BlockMap::Cursor cursor;
  LocateBy([&](uint64_t key) { return FindOrBear(key, cursor); }, keys, refs);
}

void RangedPages::ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const {
  const uint64_t by = rows_per_block_.by();
  blocks_.ForEach(from / by + (from % by == 0 ? 0 : 1),
                  [visit](const RangedPage& page) { return visit(page); });
}

absl::Status RangedPages::Install(const PageView& image) {
  const uint64_t first = image.range.start;
  const uint64_t block = rows_per_block_(first);
  if (first >= table_rows_ || first % rows_per_block_.by() != 0 || image.range.depth != 0) {
    return absl::DataLossError(absl::StrCat("page: it starts at key ", first, " of ", table_rows_,
                                            "; expected a multiple of ", rows_per_block_.by()));
  }
  const size_t rows = RowsOfBlock(block);
  if (image.keys.size() != rows || image.rows.size() != rows * shape_.floats()) {
    return absl::DataLossError(absl::StrCat("page: ", image.keys.size(), " keys and ", image.rows.size(),
                                            " floats; expected ", rows, " keys with ", shape_.floats(),
                                            " floats each"));
  }
  for (size_t row = 0; row < rows; ++row) {
    if (image.keys[row] == first + row) continue;
    return absl::DataLossError(
        absl::StrCat("page: key ", image.keys[row], " at position ", row, "; expected ", first + row));
  }
  RangedPage* page = Find(first);
  if (page == nullptr) page = MakeBlock(block);
  page->Install(image);
  return absl::OkStatus();
}

uint64_t RangedPages::bytes() const {
  return page_bytes_ + blocks_.bytes();
}

uint64_t RangedPages::NewBytesBound(size_t keys) const {
  const uint64_t all = (table_rows_ - 1) / rows_per_block_.by() + 1;
  const uint64_t blocks = std::min<uint64_t>(keys, all - blocks_.size());
  return blocks * (sizeof(RangedPage) + RangedPage::BufferBytes(shape_, rows_per_block_.by())) +
         blocks_.NewBytesBound(blocks);
}

uint64_t RangedPages::NewBytesBound(KeyView keys) const {
  absl::flat_hash_set<uint64_t> missing;
  BlockMap::Cursor cursor;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Find(keys[i], cursor) == nullptr) missing.insert(rows_per_block_(keys[i]));
  }
  return NewBytesBound(missing.size());
}

}  // namespace paceline::table
