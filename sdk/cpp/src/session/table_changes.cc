#include "sdk/cpp/src/session/table_changes.h"

#include <algorithm>
#include <utility>

#include "libs/base/planted.h"
#include "libs/clock/consistency.h"
#include "libs/wire/schema_codec.h"
#include "paceline/v1/types.pb.h"
#include "sdk/cpp/src/cache/cache.h"

namespace paceline::sdk {
namespace {

constexpr size_t kPeriodsMax = 8;

}  // namespace

void TableChanges::Opened(std::shared_ptr<const TableInfo> info, const v1::Table& stated, bool worker,
                          Clock clock) {
  Table& table = tables_[info->id];
  if (table.periods.empty()) {
    // What was in force before the last change is not known, but for what the table was created with.
    Period first{.number = 0, .from = 0, .bound = 0, .rule = std::nullopt};
    if (stated.rule_change() == 0) first.rule = info->schema.rule;
    if (stated.rule_change() > 0) {
      first.number = stated.rule_change() - 1;
      first.bound = clock::kSmallestBound;
    }
    table.periods.push_back(std::move(first));
    table.used = info->schema.rule;  // as the cache takes it
  }
  table.info = std::move(info);
  Take(table, stated);
  Follow(table, worker, clock);
  // If the cache sees the table for the first time, it takes the rates as stated: they may not have begun.
  if (table.used != table.info->schema.rule) cache_.OnRates(*table.info, table.used);
}

void TableChanges::Told(const v1::Table& stated, bool worker, Clock clock) {
  const auto known = tables_.find(TableId(stated.id()));
  if (known == tables_.end()) return;
  Take(known->second, stated);
  Follow(known->second, worker, clock);
}

void TableChanges::OnTick(bool worker, Clock clock) {
  for (auto& [id, table] : tables_) {
    if (table.periods.back().number > 0) Follow(table, worker, clock);
  }
}

void TableChanges::Take(Table& table, const v1::Table& stated) {
  if (stated.rule_change() <= table.periods.back().number) return;
  if (stated.rule_change() > table.periods.back().number + 1) {
    // Changes were missed. Wherever this one does not count, one of those may have, also if it is over by
    // now.
    for (Period& period : table.periods) {
      period.rule = std::nullopt;
      period.bound = clock::kSmallestBound;
    }
    Use(table, std::nullopt);
  }
  // Of a rule that this client does not know nothing is applied to cached rows.
  const absl::StatusOr<table::Rule> rule = wire::RuleFromProto(stated.schema().rule());
  table.periods.push_back({.number = stated.rule_change(),
                           .from = stated.rule_clock(),
                           .bound = stated.bound(),
                           .rule = rule.ok() ? std::optional<table::Rule>(*rule) : std::nullopt});
}

const TableChanges::Period& TableChanges::At(const Table& table, Clock clock) {
  size_t at = table.periods.size() - 1;
  while (at > 0 && table.periods[at].from > clock) --at;
  return table.periods[at];
}

void TableChanges::Follow(Table& table, bool worker, Clock clock) {
  std::optional<table::Rule> rule = At(table, clock).rule;
  const auto as_first = [&](const Period& period) { return period.rule == table.periods.front().rule; };
  if (!worker && !std::ranges::all_of(table.periods, as_first)) rule = std::nullopt;
  // Reads that are under way may still ask about a few clocks before this one.
  const bool in_force = &At(table, clock) != &table.periods.front();
  if (table.periods.size() > kPeriodsMax && in_force) table.periods.erase(table.periods.begin());
  if (table.periods.size() > kPeriodsMax && !worker) {
    // At its clock, 0, the first one is in force for ever. That there were other rates is remembered there.
    if (!as_first(table.periods[1])) table.periods.front().rule = std::nullopt;
    table.periods.erase(table.periods.begin() + 1);
  }
  Use(table, rule);
}

void TableChanges::Use(Table& table, const std::optional<table::Rule>& rule) {
  if (rule == table.used) return;
  table.used = rule;
  cache_.OnRates(*table.info, rule);
}

uint32_t TableChanges::BoundIn(const Table& table, Clock reader) {
  const uint32_t in_force = clock::BoundOf(At(table, reader).bound);
  if (Planted(Bug::kLargerBoundKept)) {
    const auto of = [](const Period& period) { return clock::BoundOf(period.bound); };
    return of(std::ranges::max(table.periods, {}, of));
  }
  return std::max(in_force, clock::BoundOf(table.periods.back().bound));
}

std::optional<Clock> TableChanges::StalenessOf(const TableInfo& table, const Promise& promise,
                                               Clock reader) const {
  if (!promise.adaptive) return promise.staleness;
  const auto known = tables_.find(table.id);
  const uint32_t bound = known == tables_.end() ? clock::kSmallestBound : BoundIn(known->second, reader);
  return std::min<Clock>(bound, *promise.staleness);
}

std::optional<Clock> TableChanges::CatchUpOf(const TableInfo& table, const Promise& promise,
                                             Clock reader) const {
  if (!promise.adaptive || !promise.catch_up.has_value()) return promise.catch_up;
  const Clock bound = *StalenessOf(table, promise, reader);
  return std::min(*promise.catch_up, *promise.staleness) * bound / *promise.staleness;
}

std::optional<Clock> TableChanges::BoundOf(const std::string& name, Clock reader) const {
  for (const auto& [id, table] : tables_) {
    const Promise promise = PromiseOf(table.info->consistency);
    if (table.info->name == name && promise.adaptive) return StalenessOf(*table.info, promise, reader);
  }
  return std::nullopt;
}

uint64_t TableChanges::Known(TableId table) const {
  const auto known = tables_.find(table);
  return known == tables_.end() ? 0 : known->second.periods.back().number;
}

}  // namespace paceline::sdk
