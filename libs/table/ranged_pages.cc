#include "libs/table/ranged_pages.h"

#include <algorithm>
#include <functional>
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
      init_row_(schema) {}

size_t RangedPages::RowsOfBlock(uint64_t block) const {
  return std::min(rows_per_block_.by(), table_rows_ - block * rows_per_block_.by());
}

RangedPage* RangedPages::Find(uint64_t key) const {
  if (key >= table_rows_) Broken(absl::StrCat("key ", key, " of a table of ", table_rows_, " rows"));
  const auto it = blocks_.find(rows_per_block_(key));
  return it == blocks_.end() ? nullptr : it->second.get();
}

RangedPage* RangedPages::FindOrBear(uint64_t key) {
  RangedPage* page = Find(key);
  if (page != nullptr) return page;
  page = MakeBlock(rows_per_block_(key));
  for (size_t row = 0; row < page->rows(); ++row) {
    init_row_(page->Key(row), page->Values(row), page->slot_stride());
  }
  return page;
}

RangedPage* RangedPages::MakeBlock(uint64_t block) {
  auto page = std::make_unique<RangedPage>(shape_, block * rows_per_block_.by(), RowsOfBlock(block));
  rows_ += page->rows();
  page_bytes_ += sizeof(RangedPage) + page->buffer_bytes();
  if (copy_ != nullptr) copy_->OnNewPage(*page);
  return (blocks_[block] = std::move(page)).get();
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

// A row is taken while the next ones are fetched: a core waits for a dozen cache misses at a time, and has
// something to do meanwhile.
template <class Value, class FindBlock, class Take>
size_t RangedPages::FindRowsBy(FindBlock find, KeyView keys, Take take) const {
  constexpr size_t kAhead = 32;
  Value* rows[kAhead];
  size_t found = 0;
  const auto take_one = [&](size_t i) { take(i, absl::Span<Value* const>(&rows[i % kAhead], 1)); };
  (void)FindEach(find, keys, [&](size_t i, RangedPage* page, uint32_t row) {
    if (page == nullptr) return false;
    if (i >= kAhead) take_one(i - kAhead);
    rows[i % kAhead] = page->Values(row);
    Prefetch(rows[i % kAhead], shape_.dim * sizeof(float));
    found = i + 1;
    return true;
  });
  for (size_t i = found - std::min(found, kAhead); i < found; ++i) take_one(i);
  return found;
}

size_t RangedPages::FindValues(KeyView keys, TakeValues take) const {
  const auto find = [this](uint64_t key) { return Find(key); };
  return shape_.dim == 1 ? FindValuesBy<const float>(find, keys, take)
                         : FindRowsBy<const float>(find, keys, take);
}

size_t RangedPages::FindToUpdate(KeyView keys, Lsn version, TakeToUpdate take) {
  if (shape_.slots_per_value != 0) return 0;
  const auto find = [this, version](uint64_t key) {
    RangedPage* page = Find(key);
    if (page == nullptr || page->CameWith(version)) return static_cast<RangedPage*>(nullptr);
    page->Touch(version);
    return page;
  };
  return shape_.dim == 1 ? FindValuesBy<float>(find, keys, take) : FindRowsBy<float>(find, keys, take);
}

void RangedPages::Locate(KeyView keys, RowRef* refs) const {
  LocateBy([this](uint64_t key) { return Find(key); }, keys, refs);
}

void RangedPages::LocateOrBear(KeyView keys, Lsn, RowRef* refs) {
  LocateBy([this](uint64_t key) { return FindOrBear(key); }, keys, refs);
}

// Uses a heap: the visitor may want only the first few of many blocks.
void RangedPages::ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const {
  std::vector<std::pair<uint64_t, const RangedPage*>> heap;
  for (const auto& [block, page] : blocks_) {
    if (page->range().start >= from) heap.emplace_back(block, page.get());
  }
  const auto later = std::greater<>();
  for (std::make_heap(heap.begin(), heap.end(), later); !heap.empty(); heap.pop_back()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    if (!visit(*heap.back().second)) return;
  }
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
  return page_bytes_ + blocks_.capacity() * sizeof(decltype(blocks_)::value_type);
}

uint64_t RangedPages::NewBytesBound(size_t keys) const {
  const uint64_t blocks =
      std::min<uint64_t>(keys, (table_rows_ - 1) / rows_per_block_.by() + 1 - blocks_.size());
  if (blocks == 0) return 0;
  // A hash map grows to less than four slots for each entry, or to a few.
  const uint64_t slots = std::max<uint64_t>(4 * (blocks_.size() + blocks) + 16, blocks_.capacity());
  return blocks * (sizeof(RangedPage) + RangedPage::BufferBytes(shape_, rows_per_block_.by())) +
         (slots - blocks_.capacity()) * sizeof(decltype(blocks_)::value_type);
}

uint64_t RangedPages::NewBytesBound(KeyView keys) const {
  absl::flat_hash_set<uint64_t> missing;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Find(keys[i]) == nullptr) missing.insert(keys[i] / rows_per_block_.by());
  }
  return NewBytesBound(missing.size());
}

}  // namespace paceline::table
