#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/table/page.h"
#include "libs/table/rule.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

namespace paceline::table {

class LookAhead;
class PageMap;
class RangedPages;
struct RowRef;
class TableCopy;
class CopyMemory;
struct CopiedRows;

// The rows of one table that lie in one segment.
//
// A state machine: the effect of an update depends only on the updates before it. So all members of a segment
// that have applied the same log hold the same rows, bit for bit, in the same pages. Belongs to one owner at
// a time and has no locks; const functions may run in parallel.
//
// Pages. A row of a sparse table lies at the *place* Mix64(table, key) << k of its segment, k being the
// ring's bits. Each page covers the places that share some leading bits. A birth that would make a page
// larger than kPageBytes splits the page by the next bit, repeatedly if need be. As rows are never removed,
// the pages follow from the set of keys, not from the order of births. A page of a ranged table is one block
// of ring::Placement; the first update in a block fills all of it with initial values.
//
// Keys and values may lie at any address, as they do in a frame. Updates and reads cannot fail: REQUIRES
// states what the caller must have checked before the update was logged (admission.h does).
class TableStore {
 public:
  // REQUIRES: Validate(schema) is OK, 0 <= ring_bits <= ring::kRingBitsMax.
  TableStore(TableId table, const Schema& schema, int ring_bits);
  ~TableStore();
  TableStore(const TableStore&) = delete;
  TableStore& operator=(const TableStore&) = delete;

  // Applies gradients[i * dim .. (i + 1) * dim) to the row of keys[i], for every i, and gives birth to
  // missing rows. A key that occurs more than once is updated once, with the sum of its gradients in order of
  // occurrence (for Assign: with the last of them). `version` is the version of the record; a page installed
  // as of that version or a later one already has the update and is left alone.
  //
  // The keys may come in any order. Costs O(keys * dim), on memory that is prefetched.
  //
  // REQUIRES: gradients.size() == keys.size() * dim; the keys are of this segment and, of a ranged table,
  // below schema.rows; `version` is at least 1 and not less than in an earlier call.
  void Update(KeyView keys, ValueView gradients, Lsn version);

  // The same for keys first .. first + count - 1 of a ranged table, in one run over contiguous memory.
  // REQUIRES: the keys lie in one block (ring::Placement::ForRange cuts ranges so) and below schema.rows.
  void UpdateRange(uint64_t first, uint64_t count, ValueView gradients, Lsn version);

  // Later updates use `rule`. REQUIRES: CheckRuleChange of the schema's rule to it is OK.
  void UseRule(const Rule& rule);

  // Replaces rows instead of updating them: `rows` holds FloatsPerRow(schema) floats for each key, its values
  // and then its slots. If a key occurs more than once its last row counts. REQUIRES: as Update.
  void Put(KeyView keys, ValueView rows, Lsn version);

  // Writes the dim values of each key's row to `out`, packed, in the order of `keys`. For a row that is not
  // born it computes the initial values and stores nothing. `out` may be unaligned. REQUIRES: as Update.
  void Read(KeyView keys, void* out) const;

  // The same for keys first .. first + count - 1 of a ranged table. REQUIRES: as UpdateRange.
  void ReadRange(uint64_t first, uint64_t count, void* out) const;

  // Update or Read of these keys is about to be called, after those of other stores: see look_ahead.h. A hint
  // that changes nothing. REQUIRES: keys.size() <= ahead.room().
  void Foresee(KeyView keys, LookAhead& ahead) const;

  TableId table() const { return table_; }
  const Schema& schema() const { return schema_; }

  // The number of rows born.
  uint64_t rows() const;
  // Bytes of memory held: pages at their capacity, and their directory. O(1).
  uint64_t bytes() const;

  // An upper bound of what an update of `keys` keys, or of ranges in that many blocks, adds to bytes(). O(1)
  // and pessimistic: it assumes that every key is unborn and splits its page, 40 to 70 KiB a key. While an
  // update runs it may hold three pages more.
  uint64_t NewBytesBound(size_t keys) const;
  // The same for these keys; costs as much as a Read. Close to the truth, and 0 if all of them are born.
  uint64_t NewBytesBound(KeyView keys) const;

  // Visits all pages that have rows, by ascending range().start. The references are valid until the next
  // update.
  void ForEachPage(absl::FunctionRef<void(const Page&)> visit) const;
  // Visits those with range().start >= from, until `visit` returns false. Costs O(pages visited), and for a
  // ranged table O(1) for each page there is.
  void ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const;

  // Takes over the image of a page from another store of this table and segment. Images may come in any
  // order, and pages may have been split between the making of two images: where two cover a key the newer
  // one holds, and of two of the same version the later to come. Until all updates up to the newest image
  // have been applied, the pages may be finer than their keys require. Ends a copy.
  //
  // kDataLoss, with nothing changed: the image is not one of this table.
  absl::Status Install(const PageImage& image) { return InstallView(PageView::Of(image)); }
  // The same of an image that lies elsewhere; it is copied once.
  absl::Status InstallView(const PageView& image);

  // A copy of all rows as they are now, made while updates go on (table_copy.h). There is one at a time:
  // BeginCopy ends an earlier one. It takes memory from `memory` and gives it back at the end.
  void BeginCopy(std::shared_ptr<CopyMemory> memory);
  // Gives out the rows of the next page as they were. False: there are no more, or no copy was begun.
  // kResourceExhausted: there was no memory to keep rows that have changed since. Both end the copy.
  absl::StatusOr<bool> NextOfCopy(CopiedRows* out);
  void EndCopy();

  // A hash of all rows' keys, values and slots, bit for bit, and of nothing else: equal for two stores that
  // have applied the same log. O(bytes()).
  uint64_t Hash() const;

 private:
  // Updates the first keys, of which none occurs twice, as long as their rows are found at once; returns how
  // many.
  size_t UpdateAtOnce(KeyView keys, ValueView gradients, Lsn version);
  // Reads the first keys likewise.
  size_t ReadAtOnce(KeyView keys, std::byte* out) const;
  // The rows are about to be updated.
  void TellCopy(absl::Span<const RowRef> refs);

  TableId table_;
  Schema schema_;
  RuleKernel kernel_;
  std::unique_ptr<PageMap> pages_;
  RangedPages* ranged_ = nullptr;    // pages_, if the table is ranged
  std::unique_ptr<TableCopy> copy_;  // null: no copy is being made
};

}  // namespace paceline::table
