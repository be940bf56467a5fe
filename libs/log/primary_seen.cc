// Readers and pushers under a value bound.
#include "libs/log/primary.h"

namespace paceline::log {

void Primary::TakeReading(const ReadingNote& note, absl::Time now) {
  SetNow(now);
  const Segment::SessionState* session = segment_.FindSession(note.session);
  if (session == nullptr || session->job != note.job) return;
  if (MayAnswer()) return rounds_.Take(note, {segment_, epoch_, replicas_.committed()}, now);
  // Another member may count the readers by now. It will not count on this one before they have stopped.
  note.sink->Told({.segment = segment_.id(), .beat = note.beat});
}

void Primary::AdvanceRounds() {
  if (!rounds_.empty() && MayAnswer()) rounds_.Advance({segment_, epoch_, replicas_.committed()});
}

}  // namespace paceline::log
