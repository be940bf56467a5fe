// Sessions at the primary: the coordinator opens, joins, finishes and evicts them, each by a record.
#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

bool Primary::Change(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
                     std::optional<Clock>* join_behind) {
  if (!MayChange(why)) return false;
  if (!ChangeBySession(change, seals, why, join_behind)) return false;
  static const std::map<int, size_t> kKinds = {{v1::SessionChange::OPEN, Record(OpenSession{}).index()},
                                               {v1::SessionChange::JOIN, Record(log::Join{}).index()},
                                               {v1::SessionChange::FINISH, Record(log::Finish{}).index()},
                                               {v1::SessionChange::EVICT, Record(log::Evict{}).index()}};
  return ChangeCommitted(kKinds.at(change.action()), change.session(), why);
}

bool Primary::ChangeBySession(const v1::SessionChange& change, const clock::LineCounts& seals,
                              std::string* why, std::optional<Clock>* join_behind) {
  switch (change.action()) {
    case v1::SessionChange::OPEN:
      return Open(change, why);
    case v1::SessionChange::JOIN:
      return Join(change, why, join_behind);
    case v1::SessionChange::FINISH:
      return Finish(change, seals, why);
    case v1::SessionChange::EVICT:
      return Evict(change);
    default:
      *why = absl::StrCat("action ", static_cast<int>(change.action()), " is unknown at this feature level");
      return false;
  }
}

bool Primary::Open(const v1::SessionChange& change, std::string* why) {
  const SessionId session(change.session());
  if (segment_.FindSession(session) != nullptr) return true;
  if (segment_.IsClosed(session) && !Planted(Bug::kLateOpenAccepted)) {
    *why = absl::StrCat("segment ", segment_.id().v, ": session ", session.v, " was closed and stays so");
    return false;
  }
  Append(OpenSession{.session = session,
                     .job = JobId(change.job()),
                     .closed_floor = SessionId(change.closed_floor()),
                     .secret_sha256 = change.secret_sha256()});
  return true;
}

bool Primary::Join(const v1::SessionChange& change, std::string* why, std::optional<Clock>* join_behind) {
  const SessionId session(change.session());
  const Segment::Session* open = segment_.FindSession(session);
  if (open == nullptr) {
    *why = absl::StrCat("segment ", segment_.id().v, ": session ", session.v, " is not open");
    return false;
  }
  clock::JobClock& clock = segment_.ClockOf(open->job);
  if (clock.HasWorker(session)) return true;
  // A call that arrives after the worker's last tick was answered long ago: to join again would hold up every
  // worker.
  if (open->finished && !Planted(Bug::kLateJoinAccepted)) return true;
  if (clock.min_clock() > change.start_clock() && !open->finished && !Planted(Bug::kJoinBelowMinClock)) {
    *join_behind = clock.min_clock();
    *why = absl::StrCat("segment ", segment_.id().v, ": min clock ", clock.min_clock(),
                        " is past the start clock ", change.start_clock());
    return false;
  }
  const JobId job = open->job;
  Append(log::Join{.session = session, .start = change.start_clock(), .rank = change.rank()});
  // The worker that held the min clock back may be gone. If all others are beyond it, the min clock advances
  // now. Otherwise the newcomer would wait for itself, since its first read comes before its first tick.
  MoveOn(job);
  return true;
}

bool Primary::Finish(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why) {
  const SessionId session(change.session());
  const Segment::Session* open = segment_.FindSession(session);
  if (open == nullptr) return segment_.IsClosed(session);
  const JobId job = open->job;
  if (!segment_.ClockOf(job).HasWorker(session)) return true;
  finishing_[session] = {.clock = change.clock() + 1, .seals = seals};
  segment_.ClockOf(job).Tick(session, change.clock() + 1, seals, Here(session));
  MoveOn(job);
  if (!segment_.ClockOf(job).HasWorker(session)) return true;
  const PartNumber staged = Here(session).At(Line::kAggregated);
  *why = absl::StrCat("segment ", segment_.id().v, ": session ", session.v, " has ", open->applied.counts[0],
                      " + ", open->applied.counts[1], " parts applied of ", seals.counts[0], " + ",
                      seals.counts[1]);
  if (staged > open->applied.At(Line::kAggregated)) {
    absl::StrAppend(why, "; parts up to ", staged, " of aggregated tables wait for ",
                    DescribeSlowest(segment_, job));
  }
  return false;
}

bool Primary::Evict(const v1::SessionChange& change) {
  const SessionId session(change.session());
  if (segment_.IsClosed(session)) return true;
  const Segment::Session* open = segment_.FindSession(session);
  const std::optional<JobId> job = open == nullptr ? std::nullopt : std::optional<JobId>(open->job);
  shard_.staging->Unstage(staging_.Drop(session));
  finishing_.erase(session);
  Append(log::Evict{.session = session,
                    .counts_below = job.has_value() ? segment_.ClockOf(*job).min_clock() : 0});
  constexpr size_t kReasonsMax = 1024;
  if (evictions_.size() >= kReasonsMax) evictions_.clear();
  evictions_[session] = {.reason = change.reason(), .data_lost = change.data_lost()};
  if (job.has_value()) MoveOn(*job);
  return true;
}

}  // namespace paceline::log
