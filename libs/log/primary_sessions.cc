// Sessions at the primary: the coordinator opens, joins, finishes and evicts them, each by a record.
#include "absl/strings/str_cat.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

bool Primary::Change(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
                     std::optional<Clock>* join_behind) {
  if (!MayChange(why)) return false;
  const bool finish = change.action() == v1::SessionChange::FINISH;
  if (!(finish ? Finish(change, seals, why) : ChangeSession(change, why, join_behind))) return false;
  static const std::map<int, size_t> kKinds = {{v1::SessionChange::OPEN, Record(OpenSession{}).index()},
                                               {v1::SessionChange::JOIN, Record(log::Join{}).index()},
                                               {v1::SessionChange::FINISH, Record(log::Finish{}).index()},
                                               {v1::SessionChange::EVICT, Record(log::Evict{}).index()}};
  return ChangeCommitted(kKinds.at(change.action()), change.session(), why);
}

bool Primary::ChangeSession(const v1::SessionChange& change, std::string* why,
                            std::optional<Clock>* join_behind) {
  const auto record = sessions_.Judge(change, segment_, join_behind);
  if (!record.ok()) {
    *why = std::string(record.status().message());
    return false;
  }
  if (!record->has_value()) return true;
  const SessionId session(change.session());
  const Segment::SessionState* open = segment_.FindSession(session);
  const std::optional<JobId> job = open == nullptr ? std::nullopt : std::optional<JobId>(open->job);
  if (std::holds_alternative<Evict>(**record)) folds_.Drop(session);
  Append(**record);
  // The worker that held the min clock back may be gone. If all others are beyond it, the min clock advances
  // now. Otherwise a newcomer would wait for itself, since its first read comes before its first tick.
  if (job.has_value()) MoveOn(*job);
  return true;
}

bool Primary::Finish(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why) {
  const SessionId session(change.session());
  const Segment::SessionState* open = segment_.FindSession(session);
  if (open == nullptr) return segment_.IsClosed(session);
  const JobId job = open->job;
  if (!segment_.ClockOf(job).HasWorker(session)) return true;
  sessions_.Finishes(session, change.clock() + 1, seals);
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

}  // namespace paceline::log
