// Sessions at the primary: opened, joined, finished and evicted by the coordinator, each by a record.
#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"

namespace paceline::log {

bool Primary::Change(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
                     std::optional<Clock>* join_behind) {
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
  Append(OpenSession{
      .session = session, .job = JobId(change.job()), .closed_floor = SessionId(change.closed_floor())});
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
  // A call that comes after the worker's last tick was answered long ago: joining again would hold up
  // everybody.
  if (open->finished && !Planted(Bug::kLateJoinAccepted)) return true;
  if (clock.min_clock() > change.start_clock() && !Planted(Bug::kJoinBelowMinClock)) {
    *join_behind = clock.min_clock();
    *why = absl::StrCat("segment ", segment_.id().v, ": min clock ", clock.min_clock(),
                        " is past the start clock ", change.start_clock());
    return false;
  }
  Append(log::Join{.session = session, .start = change.start_clock(), .rank = change.rank()});
  return true;
}

bool Primary::Finish(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why) {
  const SessionId session(change.session());
  const Segment::Session* open = segment_.FindSession(session);
  if (open == nullptr) return segment_.IsClosed(session);
  const JobId job = open->job;
  if (!segment_.ClockOf(job).HasWorker(session)) return true;
  if (!open->applied.Covers(seals) && !Planted(Bug::kFinishedEarly)) {
    *why = absl::StrCat("segment ", segment_.id().v, ": session ", session.v, " has ",
                        open->applied.counts[0], " + ", open->applied.counts[1], " parts applied of ",
                        seals.counts[0], " + ", seals.counts[1]);
    return false;
  }
  Append(log::Finish{.session = session});
  AdvanceMinClock(job);
  WakeParked();
  return true;
}

bool Primary::Evict(const v1::SessionChange& change) {
  const SessionId session(change.session());
  if (segment_.IsClosed(session)) return true;
  const Segment::Session* open = segment_.FindSession(session);
  const std::optional<JobId> job = open == nullptr ? std::nullopt : std::optional<JobId>(open->job);
  Append(log::Evict{.session = session});
  constexpr size_t kReasonsMax = 1024;
  if (eviction_reasons_.size() >= kReasonsMax) eviction_reasons_.clear();
  eviction_reasons_[session] = change.reason();
  if (job.has_value()) AdvanceMinClock(*job);
  WakeParked();
  return true;
}

}  // namespace paceline::log
