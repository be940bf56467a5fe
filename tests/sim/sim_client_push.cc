// Pushes, of which some have priorities, and the numbers that their parts get.
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
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
  const auto gate = gate_;
  Enter([&] {
    const auto batch = sdk::GroupKeys(*core().routes(), table->placement, table->schema.dim, keys, values,
                                      sdk::AllocateFresh);
    const uint32_t priority = DrawPriority();
    const uint64_t push = TellTruth(table, batch, valid, priority);
    core().Push({.table = table,
                 .batch = batch,
                 .priority = priority,
                 .done = [this, gate, valid, table, push, began = world_.Now()](absl::Status status) {
                   if (status.ok())
                     Took(table->schema.aggregated ? "a push that is folded" : "a push", began);
                   if (absl::IsInvalidArgument(status)) world_.truth.OnRefused(session_, push);
                   if (gate != gate_ || !up() || !core().failure().ok()) return;
                   const bool gone = absl::IsInvalidArgument(status) && world_.truth.IsDropped(table->id);
                   if (gone) return OpenScratchAgain(table->id);
                   const bool expected = valid ? status.ok() : absl::IsInvalidArgument(status);
                   if (expected) return;
                   world_.verdict.Violated(
                       "Progress", absl::StrCat("a push of ", name(), " ends with ", status.ToString()));
                 }});
  });
}

}  // namespace paceline::sim
