#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "libs/base/ids.h"

namespace paceline::log {

// The rows of one table in one segment that changed lately, each with the record that changed it. Soft state
// of the primary: it begins with the first reader that asks, or subscribes, forgets its oldest records beyond
// a bound, and does not survive the primary. If asked for more than it knows it says so. Single owner, no
// locks.
class ChangeLog {
 public:
  // Entries kept, 16 bytes each; one for each record and row.
  static constexpr size_t kEntriesMax = 8192;

  // Knows every record after `from`.
  explicit ChangeLog(Lsn from, size_t entries_max = kEntriesMax) : entries_max_(entries_max), from_(from) {}

  // The record `version` has changed the row. REQUIRES: `version` is after `from`, and no smaller than in
  // earlier calls.
  void Add(Lsn version, uint64_t key);

  // The keys of the rows that records after `since` have changed, ascending, each once. nullopt: the log does
  // not reach back that far, or they are more than `max`. O(entries after `since`).
  std::optional<std::vector<uint64_t>> Since(Lsn since, uint64_t max) const;

  size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    Lsn version;
    uint64_t key = 0;
  };

  size_t entries_max_;
  Lsn from_;
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace paceline::log
