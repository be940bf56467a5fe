#include "libs/log/session_changes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/refusals.h"

namespace paceline::log {
namespace {

using Judged = absl::StatusOr<std::optional<Record>>;

Judged JudgeOpen(const v1::Change& change, const Segment& segment) {
  const SessionId session(change.subject().id());
  if (segment.FindSession(session) != nullptr) return std::nullopt;
  if (segment.IsClosed(session) && !Planted(Bug::kLateOpenAccepted)) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", segment.id().v, ": session ", session.v, " was closed and stays so"));
  }
  return OpenSession{.session = session,
                     .job = JobId(change.job()),
                     .closed_floor = SessionId(change.open().closed_floor()),
                     .secret_sha256 = change.open().secret_sha256()};
}

Judged JudgeJoin(const v1::Change& change, Segment& segment, std::optional<Clock>* passed) {
  const SessionId session(change.subject().id());
  const Clock start = change.join().start_clock();
  const Segment::SessionState* open = segment.FindSession(session);
  if (open == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", segment.id().v, ": session ", session.v, " is not open"));
  }
  const clock::JobClock& clock = segment.ClockOf(open->job);
  if (clock.HasWorker(session)) return std::nullopt;
  // To join again would hold up every worker.
  if (open->finished && !Planted(Bug::kLateJoinAccepted)) return std::nullopt;
  if (clock.min_clock() > start && !open->finished && !Planted(Bug::kJoinBelowMinClock)) {
    *passed = clock.min_clock();
    return absl::FailedPreconditionError(absl::StrCat("segment ", segment.id().v, ": min clock ",
                                                      clock.min_clock(), " is past the start clock ", start));
  }
  return Join{.session = session, .start = start, .rank = change.join().rank()};
}

}  // namespace

absl::StatusOr<std::optional<Record>> SessionChanges::Judge(const v1::Change& change, Segment& segment,
                                                            std::optional<Clock>* passed) {
  if (change.has_open()) return JudgeOpen(change, segment);
  if (change.has_join()) return JudgeJoin(change, segment, passed);
  const SessionId session(change.subject().id());
  if (segment.IsClosed(session)) return std::nullopt;
  finishing_.erase(session);
  if (evictions_.size() >= kReasonsMax) evictions_.clear();
  evictions_[session] = {.reason = change.evict().reason(), .data_lost = change.evict().data_lost()};
  const Segment::SessionState* open = segment.FindSession(session);
  // Changes have numbers once every shard can read what is new in the record.
  return Evict{.session = session,
               .counts_below = open == nullptr ? 0 : segment.ClockOf(open->job).min_clock(),
               .data_lost = change.evict().data_lost() && change.number() != 0};
}

void SessionChanges::Finishes(SessionId session, Clock clock, const clock::LineCounts& seals) {
  finishing_[session] = {.clock = clock, .seals = seals};
}

std::optional<Finish> SessionChanges::TakeFinish(JobId job, Segment& segment) {
  for (auto it = finishing_.begin(); it != finishing_.end(); ++it) {
    const auto& [session, last] = *it;
    const Segment::SessionState* open = segment.FindSession(session);
    if (open == nullptr || open->job != job) continue;
    if (!open->applied.Covers(last.seals) && !Planted(Bug::kFinishedEarly)) continue;
    const Clock counted = segment.ClockOf(job).workers().at(session).counted;
    const Finish record{.session = session, .clock = std::max(last.clock, counted)};
    finishing_.erase(it);
    return record;
  }
  return std::nullopt;
}

v1::Refusal SessionChanges::NotOpen(SessionId session, JobId job, const Segment& segment,
                                    absl::string_view advice) const {
  const auto evicted = evictions_.find(session);
  const bool known = evicted != evictions_.end();
  const bool lost_here =
      !known && began_empty_ && !segment.IsClosed(session) && segment.FindSession(session) == nullptr;
  const bool data_lost = lost_here || segment.HasLostData(session) || (known && evicted->second.data_lost);
  std::string why;
  if (known) why = absl::StrCat(" (", evicted->second.reason, ")");
  if (lost_here) why = " (what the segment had was given up for lost)";
  return RefusalOf(data_lost ? v1::Refusal::DATA_LOSS : v1::Refusal::FENCED, segment.id(),
                   absl::StrCat("session ", session.v, " of job ", job.v, " is not open in segment ",
                                segment.id().v, why, advice));
}

}  // namespace paceline::log
