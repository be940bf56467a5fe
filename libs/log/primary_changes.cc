// The rows of a table that have changed, for readers that hold older versions of them.
#include <algorithm>
#include <cstring>

#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/log/primary.h"

namespace paceline::log {

// If a reader has asked for the table's changes, compares each row before and after the update.
void Primary::AppendUpdate(const Update& update) {
  const auto tracked = update.count == 0 ? tracked_.end() : tracked_.find(update.table);
  if (tracked == tracked_.end()) {
    Append(update);
    return;
  }
  if (++tracked->second.updates_unasked > kUpdatesUnasked) {
    tracked_.erase(tracked);
    Append(update);
    return;
  }
  const table::KeyView keys = Keys(update.keys);
  const Segment::Table& table = *segment_.FindTable(update.table);
  const size_t row_bytes = table.info->schema.dim * sizeof(float);
  std::vector<std::byte> before(keys.size() * row_bytes), after(keys.size() * row_bytes);
  table.rows.Read(keys, before.data());
  Append(update);
  table.rows.Read(keys, after.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::memcmp(&before[i * row_bytes], &after[i * row_bytes], row_bytes) == 0) continue;
    if (Planted(Bug::kChangeNotTold) && keys[i] % 4 == 0) continue;
    tracked->second.log.Add(segment_.version(), keys[i]);
  }
}

absl::Status Primary::CheckChanges(const table::Schema& schema) {
  if (schema.kind == table::Kind::kSparse && !schema.aggregated) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "key_form: 2 (changes) is served of sparse tables that are applied on arrival; pull by keys");
}

void Primary::AnswerChanges(const Read& read) {
  const ChangesAsked& asked = *read.changes;
  if (tracked_.size() >= kTrackedMax && !tracked_.contains(read.table->id)) {
    tracked_.erase(std::max_element(tracked_.begin(), tracked_.end(), [](const auto& a, const auto& b) {
      return a.second.updates_unasked < b.second.updates_unasked;
    }));
  }
  Tracked& tracked =
      tracked_.try_emplace(read.table->id, Tracked{.log = ChangeLog(segment_.version())}).first->second;
  tracked.updates_unasked = 0;
  // A version beyond this segment's is of another epoch, and void.
  const auto keys =
      asked.since > segment_.version() ? std::nullopt : tracked.log.Since(asked.since, asked.rows_max);
  *asked.count = keys.has_value() ? static_cast<uint32_t>(keys->size()) : kChangesUnknown;
  if (!keys.has_value() || keys->empty()) return;
  std::memcpy(asked.keys, keys->data(), keys->size() * sizeof(uint64_t));
  segment_.FindTable(read.table->id)->rows.Read(absl::MakeConstSpan(*keys), read.out);
}

}  // namespace paceline::log
