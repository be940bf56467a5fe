#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/table/page.h"

// Copies of a table's rows as of one moment, made a page at a time while updates go on.
namespace paceline::table {

class PageMap;

// The memory that a copy takes is accounted here. Implementations must be thread-safe.
class CopyMemory {
 public:
  virtual ~CopyMemory() = default;
  // Takes `bytes` more. False: there are not so many.
  virtual bool Take(uint64_t bytes) = 0;
  virtual void GiveBack(uint64_t bytes) = 0;
};

// Rows of one page, or of a part of it, in no particular order.
struct CopiedRows {
  TableId table;
  uint32_t floats = 0;  // of each key: its values, then its slots
  std::vector<uint64_t> keys;
  std::vector<float> rows;
};

// Gives out every row as it was when this object was made. Before a row changes for the first time its old
// content is put aside. When a page is given out, rows put aside take the place of the present ones, and rows
// born since are left out. So an update costs one extra row copy for each row that it changes for the first
// time. Memory is needed for rows that have changed and are not given out yet: their content, 4 bytes and a
// bit each. A page that is about to be split or renumbered, or most of which is about to change at once, is
// put aside as a whole.
//
// Belongs to the store and to the store's owner.
class TableCopy {
 public:
  // Memory is taken and given back in multiples of this many bytes.
  static constexpr uint64_t kMemoryStep = uint64_t{64} << 10;

  // `pages` outlives this.
  TableCopy(TableId table, const PageMap& pages, bool ranged, std::shared_ptr<CopyMemory> memory)
      : table_(table), pages_(pages), ranged_(ranged), memory_(std::move(memory)) {}
  ~TableCopy();
  TableCopy(const TableCopy&) = delete;

  // -- called by the store before it acts --
  void BeforeChange(const Page& page, uint32_t row);
  void BeforeChange(const Page& page, size_t first_row, size_t rows);
  void BeforeBirth(const Page& page);
  void BeforeSplit(const Page& page, const Page& upper);
  // A new page has come with its rows; none of them existed when the copy began.
  void OnNewPage(const Page& page);

  // Gives out the rows of the next page. False: there are no more. kResourceExhausted, then and from then on:
  // there was no memory for rows that have changed. Costs O(the page).
  absl::StatusOr<bool> Next(CopiedRows* out);

 private:
  // A page in which rows have changed since.
  struct Changed {
    bool done = false;            // given out, put aside as a whole, or born since
    size_t rows_then = 0;         // their numbers are smaller; those with larger ones were born since
    std::vector<bool> kept = {};  // by row; sized when the first one is
    std::vector<uint32_t> rows = {};
    std::vector<float> content = {};  // of these rows
  };

  bool WasGivenOut(const Page& page) const { return page.range().start < from_; }
  // nullptr: no change of the page needs to be noted.
  Changed* Noted(const Page& page);
  void Keep(const Page& page, uint32_t row, Changed& changed);
  void PutAside(const Page& page, Changed& changed);
  CopiedRows RowsOf(const Page& page) const;
  void Forget(Changed& changed);
  static uint64_t BytesOf(const Changed& changed);
  static uint64_t BytesOf(const CopiedRows& rows);
  bool Hold(uint64_t bytes);
  void LetGo(uint64_t bytes);
  void Fail();

  const TableId table_;
  const PageMap& pages_;
  const bool ranged_;
  const std::shared_ptr<CopyMemory> memory_;
  absl::flat_hash_map<const Page*, std::unique_ptr<Changed>> changed_;
  const Page* last_page_ = nullptr;  // the page of the last call, and its notes
  Changed* last_ = nullptr;
  std::deque<CopiedRows> aside_;
  uint64_t from_ = 0;    // pages that begin below it were given out
  bool walked_ = false;  // … all of them
  uint64_t held_ = 0;    // bytes
  uint64_t taken_ = 0;   // … of memory_
  bool no_memory_ = false;
};

}  // namespace paceline::table
