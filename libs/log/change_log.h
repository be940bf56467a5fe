#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/base/ids.h"

namespace paceline::log {

// The rows of one table in one segment that changed lately, each with the record that changed it last. Soft
// state of the primary: it begins with the first reader that asks, or subscribes, forgets the rows that have
// not changed for longest beyond a bound, and does not survive the primary. If asked for more than it knows
// it says so. Single owner, no locks.
class ChangeLog {
 public:
  // Rows kept, some 50 bytes each.
  static constexpr size_t kRowsMax = 8192;

  // Knows every record after `from`.
  explicit ChangeLog(Lsn from, size_t rows_max = kRowsMax) : rows_max_(rows_max), from_(from) {}

  // The record `version` has changed the row, by so much relative to itself. REQUIRES: `version` is after
  // `from`, and no smaller than in earlier calls. O(1), amortised.
  void Add(Lsn version, uint64_t key, float moved = 0);

  // The keys of the rows that records after `since` have changed, ascending, each once. nullopt: the log does
  // not reach back that far, or they are more than `max`. O(n log n) for n changes after `since`.
  std::optional<std::vector<uint64_t>> Since(Lsn since, uint64_t max) const;

  // By how much the row was moved by its changes, step by step, since the last one that was settled before
  // its next; 0: the log does not have it.
  float Moved(uint64_t key) const;
  // Nobody asks any more by how much records up to this one have moved rows.
  void Settle(Lsn version) { settled_ = std::max(settled_, version); }

  size_t rows() const { return last_.size(); }

 private:
  struct Entry {
    Lsn version;
    uint64_t key = 0;
  };
  struct Last {
    Lsn version;
    float moved = 0;
  };
  // The row has changed again since.
  bool IsPast(const Entry& entry) const {
    const auto last = last_.find(entry.key);
    return last == last_.end() || last->second.version != entry.version;
  }
  void ForgetOldest();

  size_t rows_max_;
  Lsn from_;
  Lsn settled_;
  std::deque<Entry> entries_;                 // oldest first
  absl::flat_hash_map<uint64_t, Last> last_;  // by key
};

}  // namespace paceline::log
