#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "libs/table/sparse_page.h"

namespace paceline::table {

// Fetches rows of several stores into the caches side by side, before they are updated or read store by
// store. A row costs two or three cache misses, each of which needs what the one before has brought. A batch
// that is cut by segment has few keys for each store, too few for their misses to overlap.
//
// Changes nothing, and may be wrong: what is updated meanwhile is found by a look-up of its own.
class LookAhead {
 public:
  // So many keys at once: their rows stay in the second cache until their turn.
  static constexpr size_t kKeys = 512;

  // `with_slots`: the slots of the rows will be used.
  explicit LookAhead(bool with_slots) : with_slots_(with_slots) {}

  size_t room() const { return kKeys - count_; }
  // REQUIRES: room() > 0. `page`, which has the key's row if there is one, must stay until Fetch.
  void Add(const SparsePage& page, uint64_t hash) {
    page.PrefetchPage();
    pages_[count_] = &page;
    hashes_[count_] = hash;
    ++count_;
  }
  // Begins to fetch the rows of all keys that were added, and forgets them.
  void Fetch() {
    for (size_t i = 0; i < count_; ++i) pages_[i]->Prefetch(hashes_[i]);
    for (size_t i = 0; i < count_; ++i) pages_[i]->PrefetchBehind(hashes_[i], with_slots_);
    count_ = 0;
  }

 private:
  const bool with_slots_;
  size_t count_ = 0;
  std::array<const SparsePage*, kKeys> pages_;
  std::array<uint64_t, kKeys> hashes_;
};

}  // namespace paceline::table
