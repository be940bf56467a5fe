// Workers: their requests, and descriptions of their waits.
#include "services/coordinator/metadata/sessions/workers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "libs/wire/packed.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {

Workers::Workers(Context& context, Membership& membership, Sessions& sessions, Waiters& waiters)
    : context_(context), membership_(membership), sessions_(sessions), waiters_(waiters) {
  sessions_.DescribeJoinsBy([this](const SessionRecord& session) { return DescribeWait(session); });
}

bool Workers::AtWork(const SessionRecord& session) {
  switch (session.state()) {
    case SessionRecord::JOINING:
    case SessionRecord::WORKER:
    case SessionRecord::FINISHING:
      return true;
    case SessionRecord::CLOSING:
      return session.was_worker();
    default:
      return false;
  }
}

bool Workers::AnyAtWork(uint32_t job) const {
  return std::ranges::any_of(context_.facts.sessions(), [&](const auto& entry) {
    return entry.second.job() == job && AtWork(entry.second);
  });
}

uint64_t Workers::NewestClock(uint32_t job) const {
  const auto known = clocks_.find(job);
  uint64_t newest = known == clocks_.end() ? 0 : known->second.min_clock;
  std::set<uint64_t> at_work;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != job || !AtWork(session)) continue;
    at_work.insert(id);
    newest = std::max(newest, sessions_.Clock(id));
  }
  for (const auto& [id, shard] : context_.facts.shards()) {
    const v1::BeatRequest* last = membership_.LastBeat(id);
    if (last == nullptr) continue;
    for (const v1::WorkerClock& worker : last->workers()) {
      if (at_work.contains(worker.session())) newest = std::max(newest, worker.clock());
    }
  }
  return newest;
}

// -- joining --

absl::StatusOr<Ticket> Workers::Join(const v1::JoinJobRequest& request, absl::Time deadline,
                                     const Done<v1::JoinJobReply>& done) {
  const uint64_t id = request.session();
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* live, sessions_.FindLive(id, request.token()));
  const SessionRecord& session = *live;
  ABSL_RETURN_IF_ERROR(CheckJoin(request, session));
  const uint32_t job = session.job();
  if (session.state() == SessionRecord::OPEN) {
    Wish wish{.workers = std::max(request.workers(), 1u), .rank = std::nullopt};
    if (request.rank_plus_one() != 0) wish.rank = request.rank_plus_one() - 1;
    Prune(job);
    ABSL_RETURN_IF_ERROR(CheckWish(session, wish));
    waiting_[job][id] = wish;
  }
  const absl::StatusOr<Ticket> ticket =
      sessions_.Await(id, Awaited::kJoin, deadline,
                      waiters_.Telling<v1::JoinJobReply>(done, [this, id] { return ReplyTo(id); }));
  TryStart(job);
  if (session.state() == SessionRecord::WORKER) AnswerGroup(session);
  return ticket;
}

v1::JoinJobReply Workers::ReplyTo(uint64_t session) const {
  const SessionRecord* joined = context_.facts.FindSession(session);
  v1::JoinJobReply reply;
  reply.set_start_clock(joined->start_clock());
  reply.set_rank(joined->rank());
  return reply;
}

absl::Status Workers::CheckJoin(const v1::JoinJobRequest& request, const SessionRecord& session) const {
  const uint32_t limit = context_.options.limits.ranks;
  if (request.workers() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers: ", request.workers(), "; expected at most ", limit));
  }
  if (request.rank_plus_one() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: ", request.rank_plus_one() - 1, "; expected less than ", limit));
  }
  switch (session.state()) {
    case SessionRecord::OPENING:
      // Its client may have been told that it is open, before the store went back in time.
      return absl::UnavailableError(absl::StrCat(
          "session ", session.id(), " is not open yet; wait for the answer to OpenSession, or try again"));
    case SessionRecord::FINISHING:
    case SessionRecord::FINISHED:
      return absl::FailedPreconditionError(
          absl::StrCat("session ", session.id(), " has finished its work; open a new session to work again"));
    default:
      return membership_.CheckNothingLost();
  }
}

absl::Status Workers::CheckWish(const SessionRecord& session, const Wish& wish) const {
  if (wish.rank.has_value()) ABSL_RETURN_IF_ERROR(CheckRank(session, *wish.rank));
  const auto job = waiting_.find(session.job());
  if (job == waiting_.end()) return absl::OkStatus();
  for (const auto& [other, theirs] : job->second) {
    if (other == session.id()) continue;
    if (theirs.workers != wish.workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("workers: session ", session.id(), " states ", wish.workers, ", but session ", other,
                       " of ", context_.facts.JobName(session.job()), " waits with ", theirs.workers,
                       "; all that start together state the same number"));
    }
    if (wish.rank.has_value() && theirs.rank == wish.rank) {
      return absl::AlreadyExistsError(absl::StrCat("rank: session ", other, " has asked for ", *wish.rank,
                                                   " already; ask for another rank, or for none"));
    }
  }
  return absl::OkStatus();
}

absl::Status Workers::CheckRank(const SessionRecord& session, uint32_t rank) const {
  for (const auto& [id, other] : context_.facts.sessions()) {
    if (id == session.id() || other.job() != session.job() || !AtWork(other) || other.rank() != rank)
      continue;
    if (other.state() == SessionRecord::CLOSING) {
      return absl::UnavailableError(
          absl::StrCat("rank: ", rank, " is session ", id, "'s until that is closed everywhere; try again"));
    }
    return absl::AlreadyExistsError(absl::StrCat("rank: ", rank, " is session ", id, "'s (", other.client(),
                                                 "); ask for another rank, or for none"));
  }
  return absl::OkStatus();
}

void Workers::OnBeat(const v1::BeatRequest& beat) {
  for (const v1::JobClock& job : beat.jobs()) {
    if (context_.facts.FindJob(job.job()) == nullptr) continue;
    uint64_t& known = clocks_[job.job()].min_clock;
    known = std::max(known, job.min_clock());
  }
  OnTime();
}

void Workers::OnTime() {
  std::vector<uint32_t> jobs;
  for (const auto& [job, waiting] : waiting_) jobs.push_back(job);
  for (const uint32_t job : jobs) TryStart(job);
}

// -- finishing --

absl::Status Workers::CheckSeals(const v1::FinishWorkerRequest& request) const {
  ABSL_ASSIGN_OR_RETURN(const std::vector<wire::Seal> seals, wire::ParseSeals(request.seals()));
  const uint64_t segments = context_.facts.SegmentCount();
  for (const wire::Seal& seal : seals) {
    if (uint64_t{seal.segment.v} + seal.run <= segments) continue;
    return absl::InvalidArgumentError(absl::StrCat("seals: segments ", seal.segment.v, " to ",
                                                   uint64_t{seal.segment.v} + seal.run - 1, "; the ring has ",
                                                   segments));
  }
  if (seals.size() <= 2 * segments) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("seals: ", seals.size(),
                                                 " entries; expected at most one for each of ", segments,
                                                 " segments and two lines"));
}

absl::StatusOr<Ticket> Workers::Finish(const v1::FinishWorkerRequest& request, absl::Time deadline,
                                       const Done<v1::FinishWorkerReply>& done) {
  const uint64_t id = request.session();
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* live, sessions_.FindLive(id, request.token()));
  ABSL_RETURN_IF_ERROR(CheckSeals(request));
  const SessionRecord& session = *live;
  if (session.state() == SessionRecord::FINISHED) return waiters_.Tell(done, {v1::FinishWorkerReply()});
  if (session.state() == SessionRecord::FINISHING &&
      (session.seals() != request.seals() || session.finish_clock() != request.clock())) {
    return absl::InvalidArgumentError(absl::StrCat("seals: session ", id,
                                                   " finishes with other ones, or at another clock than ",
                                                   session.finish_clock(), ", already; repeat those"));
  }
  if (session.state() != SessionRecord::FINISHING && session.state() != SessionRecord::WORKER) {
    return absl::FailedPreconditionError(
        absl::StrCat("session ", id, " is not a worker: JoinJob makes it one, CloseSession ends it"));
  }
  if (session.state() == SessionRecord::WORKER) {
    SessionRecord next = session;
    next.set_state(SessionRecord::FINISHING);
    next.set_seals(request.seals());
    next.set_finish_clock(request.clock());
    ABSL_RETURN_IF_ERROR(sessions_.Move({next}));
  }
  return sessions_.Await(id, Awaited::kFinish, deadline, waiters_.Telling(done));
}

// -- words --

std::string Workers::DescribeJointStart(uint32_t job) const {
  const std::map<uint64_t, Wish>& waiting = waiting_.at(job);
  const uint32_t workers = waiting.begin()->second.workers;
  const std::string sessions = absl::StrJoin(
      waiting, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
  return absl::StrCat(waiting.size(), " of ", workers, " workers of ", context_.facts.JobName(job),
                      " have asked to join (sessions ", sessions, ")");
}

std::string Workers::DescribeWait(const SessionRecord& session) const {
  if (session.state() == SessionRecord::WORKER) {
    return absl::StrCat("the others that start together with it (the group of session ", session.group(),
                        ")");
  }
  const auto it = waiting_.find(session.job());
  if (it == waiting_.end() || !it->second.contains(session.id())) return "";
  if (held_(session.job())) return "a change of rates, or a snapshot, during which no worker may join";
  if (it->second.size() < Needed(session.job())) {
    return absl::StrCat("the others: ", DescribeJointStart(session.job()), "; start the others");
  }
  return absl::StrCat("the first report since the coordinator started of ",
                      absl::StrJoin(membership_.Unreported(), ", "));
}

std::vector<std::string> Workers::Problems() const {
  std::vector<std::string> problems;
  for (const auto& [job, waiting] : waiting_) {
    if (!waiting.empty() && waiting.size() < Needed(job)) {
      problems.push_back(absl::StrCat(DescribeJointStart(job), "; the others are waited for"));
    }
  }
  return problems;
}

}  // namespace paceline::coordinator
