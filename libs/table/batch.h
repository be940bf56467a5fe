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
std::vector<uint32_t> TouchAndFindRepeats(absl::Span<RowRef> refs, Lsn version);

// Applies gradients[i * dim .. (i + 1) * dim) to the row of each refs[i] that has a page. `repeats` is what
// TouchAndFindRepeats returned for them; gradients of a row that occurs repeatedly are summed in order first
// (or the last taken, where the rule says so).
void ApplyBatch(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                const std::vector<uint32_t>& repeats, ValueView gradients);

// How many rows before its turn a row is asked for.
inline constexpr size_t kPrefetchAhead = 16;

// Asks the memory for the first `bytes` of a row, if it has a page.
inline void PrefetchRow(const RowRef& ref, size_t bytes) {
  if (ref.page == nullptr) return;
  constexpr size_t kLine = 64;
  constexpr size_t kBytesMax = 8 * kLine;  // the rest is read in sequence and comes by itself
  const char* row = reinterpret_cast<const char*>(ref.page->Values(ref.row));
  for (size_t at = 0; at < bytes && at < kBytesMax; at += kLine) __builtin_prefetch(row + at);
}

}  // namespace paceline::table
