// Readers that want to be told of changes.
#include "absl/strings/str_cat.h"
#include "libs/log/keys.h"
#include "libs/log/part_check.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

std::optional<v1::Refusal> Primary::Subscribe(const SetChange& change) {
  if (!MayAnswer() || handing_over()) return NotNow("may not answer now", 50);
  const Segment::SessionState* session = segment_.FindSession(change.session);
  if (session == nullptr || session->job != change.job) {
    return sessions_.NotOpen(change.session, change.job, segment_, "; open a new session");
  }
  absl::Status valid = CheckNotDropped(*change.table, segment_);
  if (valid.ok()) valid = ChangeTracker::CheckTold(change.table->schema);
  if (!valid.ok()) return RefusalOf(v1::Refusal::INVALID, segment_.id(), valid.message());
  OpenTableIfNew(change.table);
  const ring::Placement& placement = segment_.FindTable(change.table->id)->placement;
  valid = CheckPlaced(placement, segment_.id(), KeyForm::kKeys, change.keys);
  if (!valid.ok()) {
    return RefusalOf(v1::Refusal::INVALID, segment_.id(),
                     absl::StrCat("table '", change.table->name, "': ", valid.message()));
  }
  return subscriptions_.Change(change, {segment_, tracker_, epoch_, began_, replicas_.committed()});
}

void Primary::TellSubscribers() {
  // What is committed stays true whoever is primary now; but nobody answers who may have been replaced.
  if (subscriptions_.empty()) return;
  if (!MayAnswer()) return subscriptions_.Sweep();
  const bool told = subscriptions_.Tell({segment_, tracker_, epoch_, began_, replicas_.committed()});
  if (told) shard_.records->Answered(segment_, epoch_);
}

v1::Refusal Primary::DroppedRefusal() const {
  return RefusalOf(v1::Refusal::INVALID, segment_.id(), "the table was dropped");
}

}  // namespace paceline::log
