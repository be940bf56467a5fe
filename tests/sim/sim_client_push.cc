// A client's pushes: what it was given, what filters leave of that and hold back, and the numbers that parts
// get.
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "tests/sim/sim_client.h"

namespace paceline::sim {

void SimClient::Numbers::Record(const history::Event& event) {
  const auto* pushed = std::get_if<history::Pushed>(&event);
  if (pushed == nullptr) return;
  client.world_.truth.OnNumbered(client.session_, {pushed->segment.v, pushed->line}, pushed->number);
}

uint32_t SimClient::DrawPriority() {
  if (!world_.prioritised || !world_.Chance(0.6)) return 0;
  return 1 + static_cast<uint32_t>(world_.Below(3));
}

uint64_t SimClient::TellTruth(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch,
                              bool valid, uint32_t priority) {
  const bool late = sdk::Pusher::IsLate({.table = table, .batch = batch, .priority = priority});
  if (late) world_.marks.Hit("a part gets its number when it is sent");
  return world_.truth.OnPush(session_, core().clock(), *table, *batch, valid,
                             late ? std::optional(priority) : std::nullopt);
}

void SimClient::Push(const TablePtr& table, const std::vector<uint64_t>& keys,
                     const std::vector<float>& values, bool valid) {
  Enter([&] {
    const auto batch = Grouped(table, keys, values, /*reads_back=*/false);
    PushBatch(table, batch, table->push_filter.active() ? 0 : DrawPriority(), valid);
    if (table->push_filter.active()) CheckHeld();
  });
}

void SimClient::PushBatch(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch,
                          uint32_t priority, bool valid) {
  const uint64_t push = NoteGiven(table, batch, valid, priority);
  core().Push({.table = table,
               .batch = batch,
               .priority = priority,
               .done = [this, gate = gate_, valid, table, push, began = world_.Now()](absl::Status status) {
                 if (status.ok()) Took(table->schema.aggregated ? "a push that is folded" : "a push", began);
                 if (absl::IsInvalidArgument(status)) world_.truth.OnRefused(session_, push);
                 if (gate != gate_ || !up() || !core().failure().ok()) return;
                 const bool gone = absl::IsInvalidArgument(status) && world_.truth.IsDropped(table->id);
                 if (gone) return OpenScratchAgain(table->id);
                 const bool expected = valid ? status.ok() : absl::IsInvalidArgument(status);
                 if (expected) return;
                 world_.verdict.Violated(
                     "Progress", absl::StrCat("a push of ", name(), " ends with ", status.ToString()));
               }});
}

void SimClient::WatchFilters() {
  held_.clear();
  gate_->core->filters().on_sent = [this](const sdk::TableInfo& table, const sdk::Batch& batch) {
    Settle(batch, -1);
    world_.truth.OnPush(session_, core().clock(), table, batch, /*valid=*/true);
  };
}

// Of what goes through a filter, parts are made of what it leaves.
uint64_t SimClient::NoteGiven(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch,
                              bool valid, uint32_t priority) {
  if (!table->push_filter.active()) return TellTruth(table, batch, valid, priority);
  Settle(*batch, 1);
  return 0;
}

void SimClient::Settle(const sdk::Batch& batch, float sign) {
  const size_t column = world_.truth.Find(session_)->column;
  for (uint32_t i = 0; i < batch.entries; ++i) {
    const char* row = batch.values.get() + i * batch.RowBytes();
    held_[LoadU64(batch.keys.get() + i * batch.EntryBytes())] += sign * LoadF32(row + column * sizeof(float));
  }
}

// A count is at least 1, so a row that is held back is not 0.
void SimClient::CheckHeld() {
  std::erase_if(held_, [](const auto& row) { return row.second == 0; });
  if (!core().failure().ok()) return;
  if (!held_.empty()) world_.marks.Hit("an update is held back");
  if (core().filters().held_rows() == held_.size()) return;
  world_.verdict.Violated(
      "Held", absl::StrCat(name(), " was given updates of ", held_.size(),
                           " rows more than it has sent, and holds back ", core().filters().held_rows()));
}

void SimClient::CheckNothingHeld() {
  if (!push_filter_.active() || !up() || !core().failure().ok()) return;
  CheckHeld();
  if (held_.empty()) return;
  const auto& [key, value] = *held_.begin();
  world_.verdict.Violated("Held",
                          absl::StrCat(name(), " flushes, and of ", held_.size(),
                                       " rows not all that it was given is sent: ", value, " of row ", key));
}

}  // namespace paceline::sim
