#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/table/initialiser.h"
#include "libs/table/page.h"
#include "libs/table/rule.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

namespace paceline::table {

class LookAhead;
class TableCopy;

// A row of a page; page is nullptr while the row is not born.
struct RowRef {
  Page* page = nullptr;
  uint32_t row = 0;
};

// Gives rows their initial values and slots.
class RowInit {
 public:
  explicit RowInit(const Schema& schema)
      : init_(schema.init), seed_(schema.seed), dim_(schema.dim), kernel_(schema.rule) {}
  void operator()(uint64_t key, float* values, size_t slot_stride) const {
    Fill(init_, seed_, key, 0, {values, dim_});
    kernel_.InitSlots(values, slot_stride, dim_);
  }

 private:
  Initialiser init_;
  uint64_t seed_;
  uint32_t dim_;
  RuleKernel kernel_;
};

// The pages of a TableStore and the look-up of keys in them: the part in which sparse and ranged tables
// differ. Terms and requirements are those of store.h.
class PageMap {
 public:
  virtual ~PageMap() = default;

  // Sets refs[i] to the row of keys[i].
  virtual void Locate(KeyView keys, RowRef* refs) const = 0;

  // The same, but gives birth to missing rows, except in pages that came with the record's updates.
  virtual void LocateOrBear(KeyView keys, Lsn version, RowRef* refs) = 0;

  // In order and at most kFewKeys at a time: calls take(i, rows), rows[j] being the values of keys[i + j].
  // Returns the number of keys taken; those left have a row among them that is not born, or rows of this
  // width are not found so in these pages: use Locate.
  using TakeValues = absl::FunctionRef<void(size_t i, absl::Span<const float* const> rows)>;
  virtual size_t FindValues(KeyView /*keys*/, TakeValues /*take*/) const { return 0; }
  // The same for an update of `version`, which is noted in the rows' pages, of rows of one value, with each
  // row's slots behind it, or of rows without slots. Also stops at a page that came with the update. Pages of
  // keys that are left may have been noted; use LocateOrBear.
  using TakeToUpdate = absl::FunctionRef<void(size_t i, absl::Span<float* const> rows)>;
  virtual size_t FindToUpdate(KeyView /*keys*/, Lsn /*version*/, TakeToUpdate /*take*/) { return 0; }
  static constexpr size_t kFewKeys = RuleKernel::kRowsAtOnce;

  // The keys will be located soon; `ahead` has room for them.
  virtual void Foresee(KeyView /*keys*/, LookAhead& /*ahead*/) const {}

  virtual uint64_t rows() const = 0;
  virtual uint64_t bytes() const = 0;
  virtual uint64_t NewBytesBound(size_t keys) const = 0;
  virtual uint64_t NewBytesBound(KeyView keys) const = 0;
  virtual void ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const = 0;
  virtual absl::Status Install(const PageView& image) = 0;

  // `copy` is told of pages that are about to be split or to get another row, and of new pages; nullptr: no
  // copy is told. The caller reports updates of existing rows itself. REQUIRES: no Install meanwhile.
  void Tell(TableCopy* copy) { copy_ = copy; }

 protected:
  TableCopy* copy_ = nullptr;
};

}  // namespace paceline::table
