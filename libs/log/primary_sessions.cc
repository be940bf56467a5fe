// Sessions at the primary: the coordinator opens, joins, finishes and evicts them, each by a record.
#include "absl/strings/str_cat.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

bool Primary::Change(const v1::Change& change, const clock::LineCounts& seals, std::string* why,
                     std::optional<Clock>* passed) {
  if (!MayChange(why)) return false;
  if (!(change.has_finish() ? Finish(change, seals, why) : ChangeSession(change, why, passed))) return false;
  static const std::map<v1::Change::ActionCase, size_t> kKinds = {
      {v1::Change::kOpen, Record(OpenSession{}).index()},
      {v1::Change::kJoin, Record(log::Join{}).index()},
      {v1::Change::kFinish, Record(log::Finish{}).index()},
      {v1::Change::kEvict, Record(log::Evict{}).index()}};
  return ChangeCommitted(kKinds.at(change.action_case()), change.subject().id(), why);
}

bool Primary::ChangeSession(const v1::Change& change, std::string* why, std::optional<Clock>* passed) {
  const auto record = sessions_.Judge(change, segment_, passed);
  if (!record.ok()) {
    *why = std::string(record.status().message());
    return false;
  }
  if (!record->has_value()) return true;
  const SessionId session(change.subject().id());
  const Segment::SessionState* open = segment_.FindSession(session);
  const std::optional<JobId> job = open == nullptr ? std::nullopt : std::optional<JobId>(open->job);
  if (std::holds_alternative<Evict>(**record)) folds_.Drop(session);
  Append(**record);
  // The worker that held the min clock back may be gone. If all others are beyond it, the min clock advances
  // now. Otherwise a newcomer would wait for itself, since its first read comes before its first tick.
  if (job.has_value()) MoveOn(*job);
  return true;
}

bool Primary::Finish(const v1::Change& change, const clock::LineCounts& seals, std::string* why) {
  const SessionId session(change.subject().id());
  const Clock end = change.finish().clock() + 1;
  const Segment::SessionState* open = segment_.FindSession(session);
  if (open == nullptr) return segment_.IsClosed(session);
  const JobId job = open->job;
  if (!segment_.ClockOf(job).HasWorker(session)) return true;
  sessions_.Finishes(session, end, seals);
  segment_.ClockOf(job).Tick(session, end, seals, Here(session));
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
