// Starts workers: which of them, when, at which clock and rank.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/sessions/workers.h"

namespace paceline::coordinator {

void Workers::Prune(uint32_t job) {
  const auto it = waiting_.find(job);
  if (it == waiting_.end()) return;
  std::erase_if(it->second, [&](const auto& waiting) {
    const SessionRecord* session = context_.facts.FindSession(waiting.first);
    return session == nullptr || session->state() != SessionRecord::OPEN ||
           !waiters_.Has(Subject::Session(waiting.first), Awaited::kJoin);
  });
  if (it->second.empty()) waiting_.erase(it);
}

// How many of the waiting sessions must start together now. REQUIRES: some wait.
size_t Workers::Needed(uint32_t job) const {
  const uint32_t workers = waiting_.at(job).begin()->second.workers;
  const bool started = std::ranges::any_of(context_.facts.sessions(), [&](const auto& entry) {
    const SessionRecord& session = entry.second;
    return session.job() == job && session.workers() == workers &&
           (session.state() == SessionRecord::JOINING || session.state() == SessionRecord::WORKER);
  });
  return started ? 1 : workers;
}

void Workers::TryStart(uint32_t job) {
  while (true) {
    Prune(job);
    const auto it = waiting_.find(job);
    if (it == waiting_.end() || held_(job)) return;
    const size_t needed = Needed(job);
    if (it->second.size() < needed) return;
    // First waits for reports of clocks that may have advanced: a start below them would be refused.
    if (context_.facts.FindJob(job)->had_workers() && !membership_.Unreported().empty()) return;
    StartTogether(job, needed);
  }
}

void Workers::StartTogether(uint32_t job, size_t count) {
  std::set<uint32_t> taken = RanksTaken(job);
  const uint64_t start = StartClock(job);
  std::vector<SessionRecord> starting;
  uint32_t next_rank = 0;
  for (const auto& [id, wish] : waiting_.at(job)) {
    if (starting.size() == count) break;
    SessionRecord& session = starting.emplace_back(*context_.facts.FindSession(id));
    while (!wish.rank.has_value() && taken.contains(next_rank)) ++next_rank;
    session.set_rank(wish.rank.has_value() ? *wish.rank : next_rank);
    taken.insert(session.rank());
    session.set_state(SessionRecord::JOINING);
    session.set_was_worker(true);
    session.set_start_clock(start);
    session.set_workers(wish.workers);
    session.set_group(starting.front().id());
  }
  for (const SessionRecord& session : starting) waiting_.at(job).erase(session.id());
  Changes changes;
  changes.jobs.push_back(*context_.facts.FindJob(job));
  changes.jobs.back().set_had_workers(true);
  const absl::Status status = sessions_.Move(starting, std::move(changes));
  if (status.ok()) return;
  for (const SessionRecord& session : starting) sessions_.Answer(session.id(), Awaited::kJoin, status);
}

std::set<uint32_t> Workers::RanksTaken(uint32_t job) const {
  std::set<uint32_t> taken;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() == job && AtWork(session)) taken.insert(session.rank());
  }
  for (const auto& [id, wish] : waiting_.at(job)) {
    if (wish.rank.has_value()) taken.insert(*wish.rank);
  }
  return taken;
}

uint64_t Workers::StartClock(uint32_t job) const {
  const auto it = clocks_.find(job);
  const JobClocks clocks = it == clocks_.end() ? JobClocks() : it->second;
  // Without workers the clocks stand still, and no margin is needed.
  return AnyAtWork(job) ? clocks.proposal.Beyond(clocks.min_clock) : clocks.min_clock;
}

void Workers::OnJoinedEverywhere(const SessionRecord& session) {
  (void)sessions_.Move(session, SessionRecord::WORKER);  // OnMoved continues; a failure is tried again
}

void Workers::OnMoved(const SessionRecord& session) {
  if (session.group() != 0 && session.state() != SessionRecord::JOINING) AnswerGroup(session);
}

void Workers::AnswerGroup(const SessionRecord& member) {
  std::vector<uint64_t> joined;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != member.job() || session.group() != member.group()) continue;
    if (session.state() == SessionRecord::JOINING) return;
    if (session.state() == SessionRecord::WORKER) joined.push_back(id);
  }
  for (const uint64_t id : joined) {
    clocks_[member.job()].proposal.Accepted();
    sessions_.Answer(id, Awaited::kJoin, absl::OkStatus());
  }
}

void Workers::OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock) {
  JobClocks& clocks = clocks_[job];
  clocks.min_clock = std::max(clocks.min_clock, min_clock);
  const SessionRecord* record = context_.facts.FindSession(session);
  if (record == nullptr || record->state() != SessionRecord::JOINING) return;
  // No member of the group can be a worker in that segment, and none may start without the others.
  std::vector<SessionRecord> group;
  const std::string reason =
      absl::StrCat("its start clock ", record->start_clock(), " had been passed in segment ", segment,
                   " (min clock ", min_clock, "); join again with a new session");
  for (const auto& [id, other] : context_.facts.sessions()) {
    const bool joining = other.state() == SessionRecord::JOINING || other.state() == SessionRecord::WORKER;
    if (other.job() != job || other.group() != record->group() || !joining) continue;
    SessionRecord& next = group.emplace_back(other);
    next.set_evicted(true);
    next.set_join_refused(true);
    next.set_reason(reason);
  }
  const absl::Status answer = absl::AbortedError(absl::StrCat("join again with a new session: ", reason));
  if (sessions_.BeginClosing(std::move(group), answer).ok()) clocks.proposal.Refused();
}

}  // namespace paceline::coordinator
