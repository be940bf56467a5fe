// Aggregated tables at the primary: parts are staged, and folded once every worker has ticked past their
// clock.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {
namespace {

constexpr uint32_t kRetryAfterMs = 50;

}  // namespace

clock::LineCounts Primary::Here(SessionId session) const {
  const Segment::Session* open = segment_.FindSession(session);
  clock::LineCounts here = open == nullptr ? clock::LineCounts() : open->applied;
  here.At(Line::kAggregated) = std::max(here.At(Line::kAggregated), staging_.Last(session));
  return here;
}

std::optional<v1::Refusal> Primary::Stage(const Part& part) {
  Update update = part.update;
  clock::JobClock& clock = segment_.ClockOf(part.job);
  const bool worker = clock.HasWorker(update.session);
  if (update.count == 0) {
    if (!worker) {  // no clock to wait for
      Append(update);
      Acknowledge(part.acks, {.segment = segment_.id(), .line = update.line, .number = update.number});
      return std::nullopt;
    }
    // An empty part may stand for one that was refused for its clock.
    update.clock = std::max({update.clock, clock.min_clock(), staging_.LastClock(update.session)});
  }
  if (worker && update.clock > clock.min_clock() + 1) {
    clock.Reached(update.session, update.clock, Here(update.session));
    MoveOn(part.job);
  }
  if (worker && update.clock > clock.min_clock() + 1) {
    v1::Refusal refusal =
        Refuse(v1::Refusal::OVER_BUDGET, update,
               absl::StrCat("clock: ", update.clock, "; parts of aggregated tables are taken for clocks ",
                            clock.min_clock(), " and ", clock.min_clock() + 1, " as yet; they wait for ",
                            DescribeSlowest(segment_, part.job)));
    refusal.set_retry_after_ms(kRetryAfterMs);
    return refusal;
  }
  if (update.count != 0) {
    if (auto refusal = CheckStaged(part, clock)) return refusal;
    if (auto refusal = CheckMemory(part)) return refusal;
    if (auto refusal = FindRoom(part, update.clock > clock.min_clock())) return refusal;
  }
  staging_.Put(part.job, update, part.table);
  staging_.Tell(update.session, part.acks);
  clock.Taken(update.session, Here(update.session));
  MoveOn(part.job);
  return std::nullopt;
}

// Parts of later clocks wait for the fold of the next clock. Parts of the next clock should find room at
// once: everything staged waits for them. A budget of twice a clock's updates guarantees that. With a smaller
// one there may be room when another segment folds, or never.
std::optional<v1::Refusal> Primary::FindRoom(const Part& part, bool ahead) {
  if (shard_.staging->Stage(Staging::BytesOf(part.update), ahead)) {
    if (!ahead) no_room_since_.erase(part.job);
    return std::nullopt;
  }
  const bool hopeless =
      !ahead && now_ - no_room_since_.try_emplace(part.job, now_).first->second > kRoomWaitMax;
  v1::Refusal refusal =
      Refuse(hopeless ? v1::Refusal::INVALID : v1::Refusal::OVER_BUDGET, part.update,
             absl::StrCat("the shard stages at most ", shard_.staging->staging_max(),
                          " bytes of aggregated tables, half of it for clocks beyond the next to be folded; ",
                          hopeless ? absl::StrCat("there was no room for clock ", part.update.clock, " for ",
                                                  absl::FormatDuration(kRoomWaitMax))
                                   : absl::StrCat("it waits for ", DescribeSlowest(segment_, part.job)),
                          "; raise --staging-budget to twice the updates of a clock"));
  if (!hopeless) refusal.set_retry_after_ms(kRetryAfterMs);
  return refusal;
}

// Checks a part when it is staged: it is folded later, and may not fail then.
std::optional<v1::Refusal> Primary::CheckStaged(const Part& part, const clock::JobClock& clock) const {
  const Update& update = part.update;
  const auto invalid = [&](const std::string& message) {
    return Refuse(v1::Refusal::INVALID, update, message);
  };
  const auto worker = clock.workers().find(update.session);
  if (worker == clock.workers().end()) {
    return invalid(
        absl::StrCat("session: ", update.session.v, " is no worker; table '", part.table->name,
                     "' is aggregated once per clock and takes updates of workers only: join first"));
  }
  if (update.clock < worker->second.start) {
    return invalid(absl::StrCat("clock: ", update.clock, "; this worker starts at ", worker->second.start,
                                ": push updates of that clock or later"));
  }
  if (update.clock < clock.min_clock()) {
    return invalid(absl::StrCat("clock: ", update.clock, " is complete already, the min clock is ",
                                clock.min_clock(), "; push updates of a clock before ticking past it"));
  }
  if (update.clock < staging_.LastClock(update.session)) {
    return invalid(absl::StrCat("clock: ", update.clock, " comes after a part of clock ",
                                staging_.LastClock(update.session), "; numbers follow the clocks"));
  }
  if (auto refusal = CheckContent(part, *segment_.FindSession(update.session))) return refusal;
  const uint64_t bytes = Staging::BytesOf(update);
  const uint64_t clock_bytes = staging_.bytes(part.job, update.clock) + bytes;
  if (clock_bytes > shard_.staging->staging_max()) {
    return invalid(absl::StrCat("values: the updates of clock ", update.clock, " come to ", clock_bytes,
                                " bytes in segment ", segment_.id().v, " alone, and a shard stages at most ",
                                shard_.staging->staging_max(),
                                "; raise --staging-budget of the shards, or push less in a clock"));
  }
  return std::nullopt;
}

void Primary::MoveOn(JobId job) {
  AdvanceMinClock(job);
  while (const auto finish = sessions_.TakeFinish(job, segment_)) {
    Append(*finish);
    AdvanceMinClock(job);
  }
  WakeParked();
}

// Clocks in which no worker updated an aggregated table are passed without a fold.
void Primary::AdvanceMinClock(JobId job) {
  const clock::JobClock& clock = segment_.ClockOf(job);
  while (const std::optional<Clock> candidate = clock.Candidate()) {
    const Clock staged = staging_.Oldest(job).value_or(*candidate);
    if (staged == clock.min_clock()) {
      FoldNext(job);
    } else {
      const Clock cut = std::max(cuts_.ClockOf(job).value_or(*candidate), clock.min_clock() + 1);
      Append(Advance{.job = job, .min_clock = std::min({*candidate, staged, cut})});
    }
    LogCutIfDue(job);  // before any record of that clock
  }
}

void Primary::FoldNext(JobId job) {
  const clock::JobClock& clock = segment_.ClockOf(job);
  Staging::Complete complete = staging_.Take(job, clock.min_clock(), clock);
  const std::vector<std::pair<SessionId, PartNumber>> numbers = complete.record.numbers;
  shard_.staging->Unstage(complete.bytes);
  Append(std::move(complete.record));
  for (size_t i = 0; i < complete.sinks.size(); ++i) {
    for (const std::shared_ptr<AckSink>& sink : complete.sinks[i]) {
      Acknowledge(sink, {.segment = segment_.id(), .line = Line::kAggregated, .number = numbers[i].second});
      sink->Wake();
    }
  }
}

}  // namespace paceline::log
