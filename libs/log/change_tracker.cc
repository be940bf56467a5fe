#include "libs/log/change_tracker.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "libs/base/planted.h"
#include "libs/log/keys.h"

namespace paceline::log {

void ChangeTracker::Apply(const Update& update, const Segment& segment, absl::FunctionRef<void()> apply) {
  const auto tracked = update.count == 0 ? tracked_.end() : tracked_.find(update.table);
  if (tracked == tracked_.end()) return apply();
  if (++tracked->second.updates_unasked > kUpdatesUnasked) {
    tracked_.erase(tracked);
    return apply();
  }
  const table::KeyView keys = Keys(update.keys);
  const Segment::Table& table = *segment.FindTable(update.table);
  const size_t row_bytes = table.info->schema.dim * sizeof(float);
  std::vector<std::byte> before(keys.size() * row_bytes), after(keys.size() * row_bytes);
  table.rows.Read(keys, before.data());
  apply();
  table.rows.Read(keys, after.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::memcmp(&before[i * row_bytes], &after[i * row_bytes], row_bytes) == 0) continue;
    if (Planted(Bug::kChangeNotTold) && keys[i] % 4 == 0) continue;
    tracked->second.log.Add(segment.version(), keys[i]);
  }
}

absl::Status ChangeTracker::Check(const table::Schema& schema) {
  if (schema.kind == table::Kind::kSparse && !schema.aggregated) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "key_form: 2 (changes) is served of sparse tables that are applied on arrival; pull by keys");
}

ChangeTracker::Tracked& ChangeTracker::TrackedOf(TableId table, Lsn version) {
  if (tracked_.size() >= kTablesMax && !tracked_.contains(table)) {
    tracked_.erase(std::max_element(tracked_.begin(), tracked_.end(), [](const auto& a, const auto& b) {
      return a.second.updates_unasked < b.second.updates_unasked;
    }));
  }
  Tracked& tracked = tracked_.try_emplace(table, Tracked{.log = ChangeLog(version, rows_max_)}).first->second;
  tracked.updates_unasked = 0;
  return tracked;
}

std::optional<std::vector<uint64_t>> ChangeTracker::Since(TableId table, Lsn since, uint64_t max) {
  const auto tracked = tracked_.find(table);
  if (tracked == tracked_.end()) return std::nullopt;
  tracked->second.updates_unasked = 0;
  return tracked->second.log.Since(since, max);
}

void ChangeTracker::Answer(const Read& read, const Segment& segment) {
  const ChangesAsked& asked = *read.changes;
  Track(read.table->id, segment.version());
  // A version beyond this segment's is of another epoch, and void.
  const auto keys =
      asked.since > segment.version() ? std::nullopt : Since(read.table->id, asked.since, asked.rows_max);
  *asked.count = keys.has_value() ? static_cast<uint32_t>(keys->size()) : kChangesUnknown;
  if (!keys.has_value() || keys->empty()) return;
  std::memcpy(asked.keys, keys->data(), keys->size() * sizeof(uint64_t));
  segment.FindTable(read.table->id)->rows.Read(absl::MakeConstSpan(*keys), read.out);
}

}  // namespace paceline::log
