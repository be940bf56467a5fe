#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libs/base/ids.h"
#include "libs/log/change_log.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"
#include "libs/table/views.h"

namespace paceline::log {

// Which rows of a segment's tables have changed, for readers that hold older versions of them: those that ask
// (refreshes), and those that are told (subscriptions.h). A table is tracked from the first of them on. Soft
// state of the primary. Single owner, no locks.
class ChangeTracker {
 public:
  // A table is given up when this many updates of it have come without another reader that asks.
  static constexpr uint64_t kUpdatesUnasked = 4096;
  // Tables tracked. For one more, the table with the oldest request is given up.
  static constexpr size_t kTablesMax = 16;

  // Keeps the last changes of so many rows of a table.
  explicit ChangeTracker(size_t rows_max = ChangeLog::kRowsMax) : rows_max_(rows_max) {}

  // Has `apply` apply the update to `segment`. If its table is tracked, compares each row before and after.
  void Apply(const Update& update, const Segment& segment, absl::FunctionRef<void()> apply);
  // The same for all tables of a fold.
  void Apply(const Fold& fold, const Segment& segment, absl::FunctionRef<void()> apply);

  // OK if a reader may ask which rows of such a table have changed.
  static absl::Status Check(const table::Schema& schema);
  // OK if a reader can be told.
  static absl::Status CheckTold(const table::Schema& schema);
  // Writes the keys and rows that have changed to the memory that the read names. Its table is tracked from
  // now on. REQUIRES: Check is OK.
  void Answer(const Read& read, const Segment& segment);

  // The table is tracked from now on; `version` is the segment's.
  void Track(TableId table, Lsn version) { (void)TrackedOf(table, version); }
  // The keys of the rows that records after `since` have changed, ascending, each once. nullopt: it does not
  // know, or they are more than `max`. Counts as a request.
  std::optional<std::vector<uint64_t>> Since(TableId table, Lsn since, uint64_t max);

  // From now on it notes by how much rows of the table are moved, too. REQUIRES: the table is tracked.
  void Weigh(TableId table);
  // By how much the row was moved since the version that Settle named last, by all changes together, each
  // relative to the row: the sum of its values' changes over that of their sizes. 0: it is not known.
  float Moved(TableId table, uint64_t key) const;
  // As ChangeLog::Settle.
  void Settle(TableId table, Lsn version);

  void Forget(TableId table) { tracked_.erase(table); }

 private:
  struct Tracked {
    ChangeLog log;
    uint64_t updates_unasked = 0;
    bool weighs = false;
  };
  // Rows that a record is about to change.
  struct Before {
    Tracked* tracked;
    const Segment::Table* table;
    table::KeyView keys;
    std::vector<std::byte> rows;
  };
  Tracked& TrackedOf(TableId table, Lsn version);
  // nullopt: the table is not tracked, or not any more.
  std::optional<Before> Look(TableId table, table::KeyView keys, const Segment& segment);
  static void Note(const Before& before, Lsn version);

  size_t rows_max_;
  absl::flat_hash_map<TableId, Tracked> tracked_;
};

}  // namespace paceline::log
