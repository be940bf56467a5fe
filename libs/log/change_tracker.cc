#include "libs/log/change_tracker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "libs/base/planted.h"
#include "libs/log/keys.h"

namespace paceline::log {
namespace {

// The sum of the values' changes over that of their sizes, before or after: at most 2, and that also if some
// are not finite.
float RelativeChange(table::ValueView before, table::ValueView after) {
  constexpr float kMost = 2;
  float change = 0, was = 0, is = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    change += std::abs(after[i] - before[i]);
    was += std::abs(before[i]);
    is += std::abs(after[i]);
  }
  if (was == 0 && is == 0) return 0;
  const float relative = change / std::max(was, is);
  return relative <= kMost ? relative : kMost;
}

}  // namespace

void ChangeTracker::Apply(const Update& update, const Segment& segment, absl::FunctionRef<void()> apply) {
  if (update.count == 0) return apply();
  const std::optional<Before> before = Look(update.table, Keys(update.keys), segment);
  apply();
  if (before.has_value()) Note(*before, segment.version());
}

void ChangeTracker::Apply(const Fold& fold, const Segment& segment, absl::FunctionRef<void()> apply) {
  std::vector<Before> all;
  for (const FoldedRows& rows : fold.tables) {
    auto before = Look(rows.table, rows.keys, segment);
    if (before.has_value()) all.push_back(*std::move(before));
  }
  apply();
  for (const Before& before : all) Note(before, segment.version());
}

std::optional<ChangeTracker::Before> ChangeTracker::Look(TableId id, table::KeyView keys,
                                                         const Segment& segment) {
  const auto tracked = tracked_.find(id);
  if (tracked == tracked_.end()) return std::nullopt;
  if (++tracked->second.updates_unasked > kUpdatesUnasked) {
    tracked_.erase(tracked);
    return std::nullopt;
  }
  const Segment::Table& table = *segment.FindTable(id);
  Before before{.tracked = &tracked->second, .table = &table, .keys = keys, .rows = {}};
  before.rows.resize(keys.size() * table.info->schema.dim * sizeof(float));
  table.rows.Read(keys, before.rows.data());
  return before;
}

void ChangeTracker::Note(const Before& before, Lsn version) {
  const size_t dim = before.table->info->schema.dim, row_bytes = dim * sizeof(float);
  std::vector<std::byte> after(before.rows.size());
  before.table->rows.Read(before.keys, after.data());
  for (size_t i = 0; i < before.keys.size(); ++i) {
    const std::byte *const was = &before.rows[i * row_bytes], *const is = &after[i * row_bytes];
    if (std::memcmp(was, is, row_bytes) == 0) continue;
    if (Planted(Bug::kChangeNotTold) && before.keys[i] % 4 == 0) continue;
    const float moved = before.tracked->weighs ? RelativeChange({was, dim}, {is, dim}) : 0;
    before.tracked->log.Add(version, before.keys[i], moved);
  }
}

absl::Status ChangeTracker::CheckTold(const table::Schema& schema) {
  if (schema.kind == table::Kind::kSparse) return absl::OkStatus();
  return absl::InvalidArgumentError("subscriptions are to rows of sparse tables; pull those of ranged ones");
}

absl::Status ChangeTracker::Check(const table::Schema& schema) {
  if (schema.kind == table::Kind::kSparse && !schema.aggregated) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "key_form: 2 (changes) is served of sparse tables that are applied on arrival; pull by keys");
}

void ChangeTracker::Weigh(TableId table) {
  if (const auto tracked = tracked_.find(table); tracked != tracked_.end()) tracked->second.weighs = true;
}

float ChangeTracker::Moved(TableId table, uint64_t key) const {
  const auto tracked = tracked_.find(table);
  return tracked == tracked_.end() ? 0 : tracked->second.log.Moved(key);
}

void ChangeTracker::Settle(TableId table, Lsn version) {
  if (const auto tracked = tracked_.find(table); tracked != tracked_.end()) {
    tracked->second.log.Settle(version);
  }
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
  *asked.count = keys.has_value() ? static_cast<uint32_t>(keys->size()) : wire::kChangesUnknown;
  if (!keys.has_value() || keys->empty()) return;
  std::memcpy(asked.keys, keys->data(), keys->size() * sizeof(uint64_t));
  segment.FindTable(read.table->id)->rows.Read(absl::MakeConstSpan(*keys), read.out);
}

}  // namespace paceline::log
