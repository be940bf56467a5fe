#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/table/page_map.h"
#include "libs/table/rule.h"
#include "libs/table/views.h"

// The update of many rows at once, after they were found: each is updated once, however often it occurs.
namespace paceline::table {

// Notes the update of `version` in the pages of all rows, and forgets (page = nullptr) the rows whose page
// came with it. Returns the positions of rows that occurred before, ascending; usually there are none.
// `distinct`: the caller knows that no row occurs twice, so that they need not be looked for.
std::vector<uint32_t> TouchAndFindRepeats(absl::Span<RowRef> refs, Lsn version, bool distinct);

// True if each key is larger than the one before, as those of most batches are: then they are distinct.
inline bool Ascending(KeyView keys) {
  uint32_t descents = 0;
  for (size_t i = 1; i < keys.size(); ++i) descents += keys[i] <= keys[i - 1] ? 1 : 0;
  return descents == 0;
}

// Applies gradients[i * dim .. (i + 1) * dim) to the row of each refs[i] that has a page. `repeats` is what
// TouchAndFindRepeats returned for them; gradients of a row that occurs repeatedly are summed in order first
// (or the last taken, where the rule says so).
void ApplyBatch(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                const std::vector<uint32_t>& repeats, ValueView gradients);

// How many rows before its turn a row is asked for.
inline constexpr size_t kPrefetchAhead = 16;

// Where rows are. What it needs of a page it reads once for rows of that page that follow each other: rows of
// one value cost more to find than to work on.
class RowFinder {
 public:
  // REQUIRES: the row has a page.
  float* operator()(const RowRef& ref) {
    if (ref.page != page_) {
      page_ = ref.page;
      values_ = page_->Values(0);
      stride_ = page_->row_stride();
    }
    return values_ + ref.row * stride_;
  }

 private:
  Page* page_ = nullptr;
  float* values_ = nullptr;
  size_t stride_ = 0;
};

// Asks the memory for the first `bytes` of a row, if it has a page.
inline void PrefetchRow(const RowRef& ref, size_t bytes, RowFinder& find) {
  if (ref.page == nullptr) return;
  constexpr size_t kLine = 64;
  constexpr size_t kBytesMax = 8 * kLine;  // the rest is read in sequence and comes by itself
  const char* row = reinterpret_cast<const char*>(find(ref));
  for (size_t at = 0; at < bytes && at < kBytesMax; at += kLine) __builtin_prefetch(row + at);
}

}  // namespace paceline::table
