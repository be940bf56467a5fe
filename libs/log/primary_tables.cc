// Tables at the primary: opened by the first part or read that needs them, dropped, and their rates changed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"

namespace paceline::log {

void Primary::OpenTableIfNew(const std::shared_ptr<const TableInfo>& table) {
  if (segment_.FindTable(table->id) == nullptr) Append(OpenTable{table});
}

bool Primary::Change(const DropTable& drop, std::string* why) {
  if (!MayChange(why)) return false;
  const auto committed = [&] { return ChangeCommitted(Record(drop).index(), drop.table.v, why); };
  if (segment_.IsDropped(drop.table)) return committed();
  folds_.Drop(drop.table);
  Append(drop);
  tracker_.Forget(drop.table);
  subscriptions_.End(drop.table, segment_.id(), DroppedRefusal());
  parked_.RefuseDropped(segment_);
  return committed();
}

bool Primary::Change(const ChangeRule& change, std::string* why, std::optional<Clock>* passed) {
  const TableInfo& info = *change.table;
  if (!MayChange(why)) return false;
  const auto committed = [&] { return ChangeCommitted(Record(change).index(), info.id.v, why); };
  if (segment_.IsDropped(info.id)) return committed();  // nothing is left to change
  const Clock min_clock = segment_.MinClockOf(info.job);
  const Clock next = segment_.NextClockOf(info.job);
  ChangeRule record = change;
  if (record.at_once) record.clock = min_clock;
  const Segment::Table* table = segment_.FindTable(info.id);
  if (table != nullptr && change.number <= table->rules.last()) {
    // A late or repeated call. A proposal that another segment refused comes again with a later clock. It is
    // followed unless a worker has reached the earlier clock: no update goes back to rates that were left.
    const Clock from = table->rules.last_from().value_or(0);
    const bool in_force = std::max(next, min_clock + 1) > from;
    if (change.number < table->rules.last() || change.at_once || record.clock <= from || in_force)
      return committed();
  }
  const bool too_late = !record.at_once && (min_clock > record.clock || next > record.clock);
  if (too_late && !Planted(Bug::kLateRatesAccepted)) {
    *passed = std::max(min_clock, next == 0 ? 0 : next - 1);
    *why =
        absl::StrCat("segment ", segment_.id().v, ": clock ", **passed, " is under way, the rates of table '",
                     info.name, "' were to change at ", record.clock);
    return false;
  }
  OpenTableIfNew(change.table);
  Append(record);
  return committed();
}

bool Primary::Change(const CloseJob& close, std::string* why) {
  if (!MayChange(why)) return false;
  const auto committed = [&] { return ChangeCommitted(Record(close).index(), close.job.v, why); };
  const auto dropped = [this](TableId table) { return segment_.IsDropped(table); };
  const bool known = segment_.jobs().contains(close.job);
  if (!known && std::all_of(close.tables.begin(), close.tables.end(), dropped)) return committed();
  for (TableId table : close.tables) folds_.Drop(table);
  Append(close);
  for (TableId table : close.tables) {
    tracker_.Forget(table);
    subscriptions_.End(table, segment_.id(), DroppedRefusal());
  }
  parked_.RefuseDropped(segment_);
  return committed();
}

}  // namespace paceline::log
