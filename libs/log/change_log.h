#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "libs/base/ids.h"

namespace paceline::log {

// Which rows of one table in one segment have got other values lately, and by which record. Soft: it begins
// when somebody asks, forgets the oldest records beyond its size, and goes with the primary; who asks for
// more than it knows is told so. Single owner, no locks.
class ChangeLog {
 public:
  // Entries kept, 16 bytes each; one a record and row.
  static constexpr size_t kEntriesMax = 8192;

  // Knows of every record after `from`.
  explicit ChangeLog(Lsn from) : from_(from) {}

  // The record `version` has changed the row. REQUIRES: `version` is after `from` and never falls.
  void Add(Lsn version, uint64_t key);

  // The keys of the rows that records after `since` have changed, ascending, each once. nullopt: it does not
  // know, or they are more than `max`. O(entries after `since`).
  std::optional<std::vector<uint64_t>> Since(Lsn since, uint64_t max) const;

  size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    Lsn version;
    uint64_t key = 0;
  };

  Lsn from_;
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace paceline::log
