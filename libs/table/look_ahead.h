#pragma once

#include <cstddef>

#include "libs/table/sparse_page.h"

namespace paceline::table {

// Fetches the headers of pages of several stores into the caches side by side, before their rows are updated
// or read store by store: a batch that is cut by segment has few keys for each store, too few for their
// misses to overlap. What lies behind the headers, which a look-up of few keys waits for as well, was slower
// to fetch here than there.
//
// Changes nothing, and may be wrong: what is updated meanwhile is found by a look-up of its own.
class LookAhead {
 public:
  // So many keys at once: their pages stay in the caches until their turn.
  static constexpr size_t kKeys = 512;

  size_t room() const { return kKeys - count_; }
  // `page` has the row of a key, if there is one. REQUIRES: room() > 0.
  void Add(const SparsePage& page) {
    page.PrefetchPage();
    ++count_;
  }
  // There is room for kKeys again.
  void Restart() { count_ = 0; }

 private:
  size_t count_ = 0;
};

}  // namespace paceline::table
