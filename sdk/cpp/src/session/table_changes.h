#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.h"
#include "libs/table/schema.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::v1 {
class Table;
}  // namespace paceline::v1

namespace paceline::sdk {

class RowCache;

// What has changed of the tables that a client has opened, as far as the coordinator has told it: their
// rates, and the bound of reads that follow one. Whatever is told was agreed by all segments, as change 1, 2,
// 3 … of the table, each from a clock on: at clock c the newest of those that begin at c or earlier is in
// force.
//
// - **Bounds.** A worker at clock c reads by the bound in force at c, or by that of the newest change if that
//   is larger: a larger bound counts as soon as the worker knows it, since its job waits meanwhile. A smaller
//   one counts from its clock on. Where the worker was not told what is in force it reads by the newest
//   change.
// - **Rates.** The cache applies the client's own pushes to cached rows at the rates in force at its clock.
//   When these change, or turn out to have changed, rows that hold own pushes that no certificate covers are
//   read anew: they may have been applied at other rates than at the shard. A client without a clock does not
//   know which rates its pushes follow, once they have changed: those make rows unfit. So do the pushes of a
//   worker that was not told of some changes, until the next one begins.
//
// Single owner, no clock of its own.
class TableChanges {
 public:
  explicit TableChanges(RowCache& cache) : cache_(cache) {}

  // The table was opened, and is now as `stated`. `worker`: the client has a clock, and is at `clock`.
  void Opened(std::shared_ptr<const TableInfo> table, const v1::Table& stated, bool worker, Clock clock);
  // A table of the job, of which something has changed, is as `stated`. Nothing happens if the client has not
  // opened it, or knows it.
  void Told(const v1::Table& stated, bool worker, Clock clock);
  // The client is at a later clock.
  void OnTick(bool worker, Clock clock);

  // The bound of a read of the table at clock `reader`; as PromiseOf, if it does not follow.
  std::optional<Clock> StalenessOf(const TableInfo& table, const Promise& promise, Clock reader) const;
  // How far behind it a worker that waits may stay: see Promise::catch_up.
  std::optional<Clock> CatchUpOf(const TableInfo& table, const Promise& promise, Clock reader) const;
  // The same for reports, by name; nullopt: no table of that name follows a bound.
  std::optional<Clock> BoundOf(const std::string& name, Clock reader) const;
  // The newest change that the client knows; 0: none.
  uint64_t Known(TableId table) const;

 private:
  // Of the changes of one table.
  struct Period {
    uint64_t number = 0;
    Clock from = 0;
    uint32_t bound = 0;               // as messages state it (clock::BoundOf)
    std::optional<table::Rule> rule;  // nullopt: not known
  };
  struct Table {
    std::shared_ptr<const TableInfo> info;
    std::vector<Period> periods;      // by number, at least one: the first applies wherever no later one does
    std::optional<table::Rule> used;  // by the cache
  };

  static const Period& At(const Table& table, Clock clock);
  // The bound of a read at clock `reader`, but for the reader's own.
  static uint32_t BoundIn(const Table& table, Clock reader);
  void Take(Table& table, const v1::Table& stated);
  // Has the cache use the rates in force.
  void Follow(Table& table, bool worker, Clock clock);
  // Has the cache use these rates.
  void Use(Table& table, const std::optional<table::Rule>& rule);

  RowCache& cache_;
  std::map<TableId, Table> tables_;
};

}  // namespace paceline::sdk
