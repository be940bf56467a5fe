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

class PageMap;
class RangedPages;
struct RowRef;
class TableCopy;
class CopyMemory;
struct CopiedRows;

// The rows of one table that lie in one segment.
//
// State machine, not service: what an update does depends on the updates before it and on nothing else, so
// that every member of a segment that has applied the same log holds the same rows, bit for bit, in the same
// pages. Belongs to one owner at a time and has no locks; const functions may run side by side.
//
// Pages. A row of a sparse table lies at the *place* Mix64(table, key) << k of its segment, k being the
// ring's bits. Each page covers the places that share some leading bits; the birth that would make a page
// larger than kPageBytes splits it by the next bit, as often as it takes. As rows are never removed, the
// pages follow from the set of keys, not from the order of births. A page of a ranged table is one block of
// ring::Placement; the first update in it fills all of it with initial values.
//
// Keys and values are taken at any address, as they lie in a frame. Updates and reads cannot fail: what a
// caller must have checked before the update was logged (admission.h does) is stated by REQUIRES.
class TableStore {
 public:
  // REQUIRES: Validate(schema) is OK, 0 <= ring_bits <= ring::kRingBitsMax.
  TableStore(TableId table, const Schema& schema, int ring_bits);
  ~TableStore();
  TableStore(const TableStore&) = delete;
  TableStore& operator=(const TableStore&) = delete;

  // Applies gradients[i * dim .. (i + 1) * dim) to the row of keys[i], for every i, giving birth to the rows
  // that are missing. A key that occurs more than once is updated once, with the sum of its gradients in the
  // order of occurrence (by Assign: with the last of them). `version` is that of the record this belongs to;
  // a page installed as of that version or a later one has the update already and is left alone.
  //
  // The keys may come in any order. Work is O(keys * dim), on memory that is asked for ahead of its use.
  //
  // REQUIRES: gradients.size() == keys.size() * dim; the keys are of this segment and, of a ranged table,
  // below schema.rows; `version` is at least 1 and not less than in an earlier call.
  void Update(KeyView keys, ValueView gradients, Lsn version);

  // The same for keys first .. first + count - 1 of a ranged table, in one run over contiguous memory.
  // REQUIRES: the keys lie in one block (ring::Placement::ForRange cuts ranges so) and below schema.rows.
  void UpdateRange(uint64_t first, uint64_t count, ValueView gradients, Lsn version);

  // Updates from now on are by `rule`. REQUIRES: CheckRuleChange of the schema's rule to it is OK.
  void UseRule(const Rule& rule);

  // Replaces rows instead of updating them: `rows` holds FloatsPerRow(schema) floats for each key, its values
  // and then its slots. Of a key that occurs more than once the last row stays. REQUIRES: as Update.
  void Put(KeyView keys, ValueView rows, Lsn version);

  // Writes the dim values of each key's row to `out`, packed, in the order of `keys`. Of a row that is not
  // born the initial values are computed and nothing is stored. `out` may be unaligned.
  // REQUIRES: as Update.
  void Read(KeyView keys, void* out) const;

  // The same for keys first .. first + count - 1 of a ranged table. REQUIRES: as UpdateRange.
  void ReadRange(uint64_t first, uint64_t count, void* out) const;

  TableId table() const { return table_; }
  const Schema& schema() const { return schema_; }

  // Rows born.
  uint64_t rows() const;
  // Bytes of memory held: pages at their capacity, and the way to them. O(1).
  uint64_t bytes() const;

  // An update of `keys` keys, or of ranges in that many blocks, adds no more than this to bytes(). O(1) and
  // pessimistic, for it takes every key for unborn and for the straw that breaks its page: some 40 KiB a key.
  // While an update runs it may hold three pages more.
  uint64_t NewBytesBound(size_t keys) const;
  // The same for these keys, at the price of a Read: close to the truth, and 0 if all of them are born.
  uint64_t NewBytesBound(KeyView keys) const;

  // All pages with rows in them, by ascending range().start. The references hold until the next update.
  void ForEachPage(absl::FunctionRef<void(const Page&)> visit) const;
  // The same of those with range().start >= from, until `visit` returns false. Costs what it visits, and of a
  // ranged table a glance at each page.
  void ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const;

  // Takes over the image of a page that another store of this table and segment had made. Images may come in
  // any order, and pages may have been split between the making of one and another: where two cover a key,
  // the newer holds; where they are of one version, the one that comes later. Until the updates up to the
  // newest image have been applied, the pages may be cut finer than the keys alone ask for. Ends a copy.
  //
  // kDataLoss, with nothing changed: the image is not one of this table.
  absl::Status Install(const PageImage& image);

  // -- a copy of all rows as they are now, made while updates go on (table_copy.h) --
  // One at a time: an earlier one ends. Memory is taken from `memory`, and given back at the end.
  void BeginCopy(std::shared_ptr<CopyMemory> memory);
  // Gives out the rows of the next page as they were. False: there are no more, or no copy was begun.
  // kResourceExhausted: there was no memory for what has changed since. Both end the copy.
  absl::StatusOr<bool> NextOfCopy(CopiedRows* out);
  void EndCopy();

  // Of all rows' keys, values and slots, bit for bit, and of nothing else: equal for two stores that have
  // applied the same log. O(bytes()).
  uint64_t Hash() const;

 private:  // The rows are about to be updated.
  void TellCopy(absl::Span<const RowRef> refs);

  TableId table_;
  Schema schema_;
  RuleKernel kernel_;
  std::unique_ptr<PageMap> pages_;
  RangedPages* ranged_ = nullptr;    // pages_, if the table is ranged
  std::unique_ptr<TableCopy> copy_;  // null: none is being made
};

}  // namespace paceline::table
