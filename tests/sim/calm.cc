#include "tests/sim/calm.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

// After a segment was handed over, clients that ask where it was learn of the new map within this.
constexpr absl::Duration kMoves = absl::Milliseconds(1500);

}  // namespace

void Calm::Violated(const std::string& what) {
  if (!judges_) return;
  world_.verdict.Violated("Calm", absl::StrCat(what, ", ", absl::FormatDuration(world_.Now() - last_fault_()),
                                               " after the last fault"));
}

void Calm::OnWish(const std::string& shard, const v1::ConfigWish& wish) {
  if (wish.kind() == v1::ConfigWish::SWAP) OnMap();
  if (wish.kind() == v1::ConfigWish::SWAP || wish.kind() == v1::ConfigWish::ADD || !calm()) return;
  Violated(absl::StrCat(shard, " wishes ", wish.ShortDebugString()));
}

void Calm::OnRefusal(const v1::Refusal& refusal, SessionId session) {
  if (!calm()) return;
  const bool moves = world_.Now() < moved_ + kMoves;
  switch (refusal.reason()) {
    case v1::Refusal::MOVED:
    case v1::Refusal::UNAVAILABLE:
      // A table was opened, or an exact snapshot holds up clocks beyond its cut.
      if (absl::StrContains(refusal.message(), "list of tables")) return;
      if (moves || absl::StrContains(refusal.message(), "before its cut")) return;
      // By load: the planner asks for it without a wish or a map.
      if (absl::StrContains(refusal.message(), "is being handed over")) return;
      break;
    case v1::Refusal::DATA_LOSS:
      break;
    case v1::Refusal::FENCED: {
      const TrueSession* truth = world_.truth.Find(session);
      if (truth == nullptr || truth->closing) return;
      break;
    }
    default:
      return;
  }
  Violated(absl::StrCat("session ", session.v, " is refused ", refusal.ShortDebugString()));
}

void Calm::OnEvicted(SessionId session, bool lives) {
  if (calm() && lives) Violated(absl::StrCat("session ", session.v, ", whose client lives, is evicted"));
}

void Calm::Took(const std::string& who, const std::string& what, absl::Duration took, bool durable) {
  static const std::map<std::string, absl::Duration> kMost = {
      {"to begin", absl::Milliseconds(1000)},
      {"a push", absl::Milliseconds(100)},
      {"a push that is folded", absl::Milliseconds(200)},
      {"a read", absl::Milliseconds(200)},
      {"a reduction", absl::Milliseconds(500)},
      {"to finish", absl::Milliseconds(500)},
      {"to close", absl::Milliseconds(500)}};
  const absl::Duration most = kMost.at(what) * (durable ? 3 : 1);
  const absl::Time since = std::max(last_fault_() + kSettled, excused_until_);
  if (took <= most || world_.Now() - took <= since) return;
  Violated(absl::StrCat(what, " of ", who, " takes ", absl::FormatDuration(took), ", expected at most ",
                        absl::FormatDuration(most)));
}

}  // namespace paceline::sim
