#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "libs/base/cache_line.h"
#include "libs/base/ids.h"
#include "libs/table/page_map.h"
#include "libs/table/rule.h"
#include "libs/table/views.h"

// Updates many rows at once, after they were found. Each row is updated once, however often it occurs.
namespace paceline::table {

// Notes the update of `version` in the pages of all rows. Sets page = nullptr for rows whose page came with
// the update. Returns the positions of rows that occurred before, ascending; usually none. `distinct`: the
// caller knows that no row occurs twice, so the search for repeats is skipped.
std::vector<uint32_t> TouchAndFindRepeats(absl::Span<RowRef> refs, Lsn version, bool distinct);

// enter(page): false if the page came with the update of `version`; otherwise it notes that in the page.
inline auto EnterFor(Lsn version) {
  return [version](Page& page) {
    if (page.CameWith(version)) return false;
    page.Touch(version);
    return true;
  };
}

// True if each key is larger than the one before, as in most batches: then all keys are distinct.
bool Ascending(KeyView keys);

// Applies gradients[i * dim .. (i + 1) * dim) to the row of each refs[i] that has a page. `repeats` is the
// result of TouchAndFindRepeats for them. Gradients of a row that occurs repeatedly are first summed in order
// (or the last one taken, if the rule says so).
void ApplyBatch(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                const std::vector<uint32_t>& repeats, ValueView gradients);

// A row is prefetched this many rows before its turn.
inline constexpr size_t kPrefetchAhead = 16;

// Computes the addresses of rows. Reads a page's layout once for consecutive rows of that page: a row of one
// value costs more to find than to update.
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

// Prefetches the first `bytes` of a row.
inline void Prefetch(const float* row, size_t bytes) {
  constexpr size_t kBytesMax =
      8 * kCacheLineBytes;  // the hardware prefetches the rest, which is read in sequence
  const char* const begin = reinterpret_cast<const char*>(row);
  for (size_t at = 0; at < bytes && at < kBytesMax; at += kCacheLineBytes) __builtin_prefetch(begin + at);
}

// The same, if the row has a page.
inline void PrefetchRow(const RowRef& ref, size_t bytes, RowFinder& find) {
  if (ref.page != nullptr) Prefetch(find(ref), bytes);
}

}  // namespace paceline::table
