#include "tests/sim/promptness.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libs/log/hand_over.h"
#include "libs/wire/map_codec.h"

namespace paceline::sim {
namespace {

// Between two visits of a primary, and what two clocks differ in this time.
constexpr absl::Duration kVisited = absl::Milliseconds(200);

}  // namespace

void Promptness::Look(SimShard& shard, const v1::Map& map, bool durable, absl::Time now) {
  Staged(shard);
  shard.ForEachPrimary([&](log::Primary& primary) {
    where_ = absl::StrCat(shard.host().name, ", segment ", primary.segment().id().v, ": ");
    Clocks(primary);
    Acknowledged(primary);
    Answered(primary);
    Shown(primary);
    Committed(shard, primary, map, durable);
    HandedOver(shard, primary, now);
  });
}

void Promptness::Violated(const std::string& what) const {
  verdict_.Violated("Prompt", absl::StrCat(where_, what));
}

// Nothing is written during a hand-over: what is due then waits for its end.
void Promptness::Clocks(const log::Primary& primary) const {
  for (const auto& [job, clock] : primary.segment().jobs()) {
    std::optional<Clock> least;
    for (const auto& [session, worker] : clock.workers()) {
      least = std::min(least.value_or(worker.counted), worker.counted);
      if (worker.pending.size() > clock::JobClock::kPendingTicksMax)
        Violated(absl::StrCat(worker.pending.size(), " ticks of session ", session.v, " wait"));
      if (worker.pending.empty() || !primary.Here(session).Covers(worker.pending.front().second)) continue;
      Violated(absl::StrCat("the tick of session ", session.v, " to clock ", worker.pending.front().first,
                            " does not count, and its parts are here"));
    }
    const std::optional<Clock> staged = primary.staging().Oldest(job);
    if (staged.has_value() && *staged < clock.min_clock())
      Violated(absl::StrCat("parts of clock ", *staged, " are staged, the min clock is ", clock.min_clock()));
    if (!least.has_value() || *least <= clock.min_clock() || primary.handing_over()) continue;
    Violated(absl::StrCat("the min clock of job ", job.v, " is ", clock.min_clock(),
                          ", its slowest worker is at ", *least));
  }
}

void Promptness::Acknowledged(const log::Primary& primary) const {
  if (primary.pending_acks() == 0 || !primary.MayAnswer()) return;
  const Lsn next = primary.uncommitted().next();
  if (next > primary.replicas().committed()) return;
  Violated(absl::StrCat("record ", next.v, " is committed, and not acknowledged"));
}

void Promptness::Answered(log::Primary& primary) const {
  if (primary.parked() == 0 || !primary.MayAnswer()) return;
  const log::Segment& segment = primary.segment();
  if (primary.replicas().committed() < primary.took_over()) return;
  primary.parked_reads().ForEach([&](const log::Read& read) {
    const auto* session = segment.FindSession(read.session);
    if (session == nullptr)
      return Violated(absl::StrCat("a read of session ", read.session.v, ", which is over, waits"));
    const bool own = session->applied.At(Line::kArrival) >= read.own;
    if (!own || primary.MinClockShown(read.job) < read.min_clock) return;
    Violated(absl::StrCat("a read of session ", read.session.v, " waits for nothing; it asks for min clock ",
                          read.min_clock, ", part ", read.own));
  });
}

void Promptness::Shown(log::Primary& primary) const {
  if (primary.replicas().uncommitted() > 0) return;
  for (const auto& [job, clock] : primary.segment().jobs()) {
    const Clock shown = primary.MinClockShown(job);
    if (shown == clock.min_clock()) continue;
    Violated(absl::StrCat("min clock ", clock.min_clock(), " of job ", job.v, " is committed, ", shown,
                          " is shown"));
  }
}

void Promptness::Committed(SimShard& shard, log::Primary& primary, const v1::Map& map, bool durable) const {
  const log::Segment& segment = primary.segment();
  const v1::SegmentConfig& config = map.segments(static_cast<int>(segment.id().v));
  const log::Replicas& replicas = primary.replicas();
  if (shard.disk() == nullptr && replicas.learners() == 0 && config.replicas_size() == 0 &&
      replicas.safe() != replicas.committed())
    Violated(absl::StrCat("record ", replicas.committed().v, " is committed, and counts as safe to ",
                          replicas.safe().v));
  if (replicas.safe() > replicas.committed())
    Violated(absl::StrCat("record ", replicas.safe().v, " counts as safe, ", replicas.committed().v,
                          " is committed"));
  if (Epoch(config.epoch()) != primary.epoch() || replicas.learners() > 0) return;
  const bool held = std::ranges::all_of(config.replicas(), [&](const v1::Member& member) {
    return replicas.Holds(wire::MemberFromProto(member));
  });
  const auto* disk = shard.shard().context().host(segment.id()).disk();
  if (!held || (durable && disk->durable() < segment.version())) return;
  if (replicas.committed() == segment.version()) return;
  Violated(absl::StrCat("every member holds record ", segment.version().v, ", ", replicas.committed().v,
                        " is committed"));
}

void Promptness::Staged(SimShard& shard) const {
  uint64_t staged = 0;
  shard.ForEachPrimary([&](log::Primary& primary) { staged += primary.staging().bytes(); });
  if (staged == shard.shard().staged_bytes()) return;
  verdict_.Violated("Bounded", absl::StrCat(shard.host().name, ": its segments stage ", staged, " bytes, ",
                                            shard.shard().staged_bytes(), " are counted"));
}

// One that has asked for the next configuration may not give up. Where one was given up, an operator may
// have begun another in the same step.
void Promptness::HandedOver(SimShard& shard, const log::Primary& primary, absl::Time now) {
  const SegmentId segment = primary.segment().id();
  HandOver& one = hand_overs_[{shard.host().name, segment}];
  const bool waits = primary.handing_over() && primary.MayAnswer() && !shard.host().Paused(now);
  const uint64_t begun = shard.shard().context().host(segment).events().hand_overs;
  if (!waits || one.epoch != primary.epoch() || one.begun != begun)
    one = {.epoch = primary.epoch(), .begun = begun, .since = now};
  if (now - one.since <= log::HandOver::kMax * (1 + log::kDrift) + kVisited) return;
  Violated("a hand-over is neither asked for nor given up");
}

}  // namespace paceline::sim
