// Handles parts that a shard refused (docs/wire.md §7).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/text.h"
#include "libs/world/random.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/refusal_pause.h"

namespace paceline::sdk {
void Pusher::OnRefusal(PushLink& link, const v1::Refusal& refusal) {
  const std::string message = absl::StrCat(link.Name(), ": ", Escaped(refusal.message()));
  switch (refusal.reason()) {
    case v1::Refusal::FENCED:
      return context_.fail(absl::AbortedError(
          absl::StrCat("session ", context_.session.v, " of job '", context_.job_name, "' is over: ", message,
                       ". Pushes that were not committed may be lost; connect again")));
    case v1::Refusal::MALFORMED:
      return context_.fail(absl::InternalError(message));
    case v1::Refusal::DATA_LOSS:
      return context_.fail(absl::DataLossError(absl::StrCat("segment ", refusal.segment(), ": ", message)));
    default:
      break;
  }
  if (refusal.number() == 0) return OnRefusedFrame(link, refusal);
  const Line kind = refusal.line() == v1::LINE_AGGREGATED ? Line::kAggregated : Line::kArrival;
  SegmentLine* line = FindLine(SegmentId(refusal.segment()), kind);
  if (line == nullptr || line->link != &link) return;
  // Only a part's latest sending counts: after going back, refusals of earlier sendings still arrive, and
  // must not cause everything to be sent again.
  Part* part = line->Find(refusal.number());
  if (part == nullptr || part->frame == 0) return;
  if (refusal.frame() != 0 && refusal.frame() != part->frame) return;
  OnRefusedPart(link, *line, *part, refusal);
}

void Pusher::OnRefusedFrame(PushLink& link, const v1::Refusal& refusal) {
  std::vector<std::pair<SegmentLine*, PartNumber>> concerned;
  for (const auto& [id, line] : link.lines()) {
    for (const Part& part : line->parts()) {
      if (part.frame != 0 && part.frame == refusal.frame()) concerned.emplace_back(line, part.number);
    }
  }
  for (auto [line, number] : concerned) {
    // The first one of a line takes back those behind it.
    Part* part = line->Find(number);
    if (part != nullptr && part->frame == refusal.frame()) OnRefusedPart(link, *line, *part, refusal);
  }
}

void Pusher::OnRefusedPart(PushLink& link, SegmentLine& line, Part& part, const v1::Refusal& refusal) {
  const std::string message = absl::StrCat("push to ", part.op->table->Name(), ": segment ", line.segment().v,
                                           " on ", link.shard().name, ": ", Escaped(refusal.message()));
  const PartNumber number = part.number;
  line.refused = Escaped(refusal.message());
  const PartNumber back_to =
      refusal.expected() == 0 ? number : std::min<PartNumber>(number, refusal.expected());
  switch (refusal.reason()) {
    case v1::Refusal::MOVED:
      GoBack(line, 0);
      return HoldForMap(line, MapVersion(refusal.map_version()));
    case v1::Refusal::OUT_OF_ORDER:
      if (IsLoss(link, line, part, refusal)) return;
      return GoBack(line, back_to);
    case v1::Refusal::OVER_BUDGET:
      if (IsLoss(link, line, part, refusal)) return;
      GoBack(line, back_to);
      return HoldUntil(line, PauseAfter(refusal, line.refusals++));
    case v1::Refusal::INVALID:
      return DropContent(line, part, absl::InvalidArgumentError(message));
    case v1::Refusal::UNIMPLEMENTED:
      return DropContent(line, part, absl::UnimplementedError(message));
    case v1::Refusal::DEADLINE:
    case v1::Refusal::UNAVAILABLE:
    default:  // a reason of a later feature level: not taken, that much is sure
      GoBack(line, number);
      return HoldUntil(line, PauseAfter(refusal, line.refusals++));
  }
}

void Pusher::DropContent(SegmentLine& line, Part& part, absl::Status why) {
  if (part.batch == nullptr) {
    context_.fail(absl::InternalError(absl::StrCat("an empty part was refused: ", why.message())));
    return;
  }
  Release(part);
  context_.cache.OnDropped(*part.op->table, *part.batch, *part.Content(), part.number);
  part.batch = nullptr;
  // An empty part needs no table, and must not share a frame with parts of a table for which the whole frame
  // is refused.
  part.table = TableId();
  const PartNumber number = part.number;
  context_.history.Record(history::Emptied{.segment = line.segment(), .line = line.kind(), .number = number});
  End(*part.op, std::move(why));
  GoBack(line, number);
}

bool Pusher::IsLoss(const PushLink& link, const SegmentLine& line, const Part& part,
                    const v1::Refusal& refusal) {
  if (refusal.expected() == 0) return false;
  if (refusal.expected() > line.last() + 1) {
    context_.fail(absl::InternalError(
        absl::StrCat(link.Describe(), ": expects part ", refusal.expected(), " of segment ", line.segment().v,
                     ", but this session has made ", line.last(), ": two clients may use one session")));
    return true;
  }
  // The mark at the time of sending: a later one may be younger than the refusal.
  if (refusal.expected() > part.committed) return false;
  OnLost(link, line, refusal.expected() - 1, part.committed);
  return true;
}

void Pusher::OnLost(const PushLink& link, const SegmentLine& line, PartNumber here, PartNumber committed) {
  context_.fail(absl::DataLossError(absl::StrCat(
      "segment ", line.segment().v, ": ", link.shard().name, " expects part ", here + 1,
      " of this session, but parts up to ", committed, " were committed: parts ", here + 1, " to ", committed,
      " are lost. Start the job again from its last saved model, or go on with new sessions and "
      "accept the loss")));
}

void Pusher::GoBack(SegmentLine& line, PartNumber to) {
  context_.stats.retries += line.Rewind(to);
  GoOn(line);
}

void Pusher::GoOn(SegmentLine& line) {
  if (line.link == nullptr) return;
  line.link->Requeue(line);
  line.link->Wake();
}

void Pusher::HoldUntil(SegmentLine& line, absl::Duration pause) {
  // Clients that were refused together do not come back together.
  pause *= 1.0 + 0.5 * world::UnitInterval(context_.random);
  Free(line);
  line.held = true;
  line.held_until = context_.timers.At(context_.Now() + pause, [this, &line] {
    Free(line);
    GoOn(line);
  });
  if (line.link != nullptr) line.link->Requeue(line);
}

void Pusher::HoldForMap(SegmentLine& line, MapVersion version) {
  // The client may already have the map that the shard means, or the shard's map may be old: ask again, but
  // not at once.
  if (version <= context_.routes->map.version()) return HoldUntil(line, kPauseIfUnsaid);
  Free(line);
  line.held = true;
  line.held_for_map = version;
  if (line.link != nullptr) line.link->Requeue(line);
  context_.want_map(version);
}

void Pusher::Free(SegmentLine& line) {
  context_.timers.Cancel(line.held_until);
  line.held = false;
  line.held_for_map = MapVersion();
}

}  // namespace paceline::sdk
