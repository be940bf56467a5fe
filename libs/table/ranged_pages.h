#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libs/base/divider.h"
#include "libs/table/block_map.h"
#include "libs/table/page_map.h"
#include "libs/table/ranged_page.h"

namespace paceline::table {

// The blocks of a ranged table in one segment that have been born by an update.
class RangedPages final : public PageMap {
 public:
  RangedPages(TableId table, const Schema& schema, int ring_bits);

  // The block that holds `key`; nullptr while it is not born.
  RangedPage* Find(uint64_t key) const;
  // The same; gives birth to the block if it is missing.
  RangedPage* FindOrBear(uint64_t key);
  // The row of `first` in its block. Ends the process unless the count - 1 keys after it are in that block
  // too.
  size_t RowInBlock(uint64_t first, uint64_t count) const;

  void Locate(KeyView keys, RowRef* refs) const override;
  void LocateOrBear(KeyView keys, Lsn version, RowRef* refs) override;
  size_t FindValues(KeyView keys, TakeValues take) const override;
  size_t FindToUpdate(KeyView keys, Lsn version, TakeToUpdate take) override;
  uint64_t rows() const override { return rows_; }
  uint64_t bytes() const override;
  uint64_t NewBytesBound(size_t keys) const override;
  uint64_t NewBytesBound(KeyView keys) const override;
  void ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const override;
  absl::Status Install(const PageView& image) override;

 private:
  [[noreturn]] void NoSuchRow(uint64_t key) const;
  // Those above, near the look-up before.
  RangedPage* Find(uint64_t key, BlockMap::Cursor& cursor) const;
  RangedPage* FindOrBear(uint64_t key, BlockMap::Cursor& cursor);
  size_t RowsOfBlock(uint64_t block) const;
  RangedPage* MakeBlock(uint64_t block);
  // Calls visit(i, page, row) for each key, with the page that find(key) returned for one of its block; stops
  // at a false.
  template <class FindBlock, class Visit>
  bool FindEach(FindBlock find, KeyView keys, Visit visit) const;
  // FindValues of rows of one value, by the pages that find(key) returns; nullptr: the row is not there.
  template <class Value, class FindBlock, class Take>
  size_t FindValuesBy(FindBlock find, KeyView keys, Take take) const;
  // The same of wider ones; stops at a row whose page enter(page) refuses.
  template <class Value, class Enter, class Take>
  size_t FindRowsBy(Enter enter, KeyView keys, Take take) const;
  template <class FindBlock>
  void LocateBy(FindBlock find, KeyView keys, RowRef* refs) const;

  RowShape shape_;
  uint64_t table_rows_;
  Divider rows_per_block_;
  RowInit init_row_;
  BlockMap blocks_;
  uint64_t rows_ = 0;
  uint64_t page_bytes_ = 0;
};

}  // namespace paceline::table
