#include "libs/clock/job_clock.h"

#include <algorithm>
#include <utility>

#include "libs/base/planted.h"

namespace paceline::clock {

JobClock::JobClock(Clock min_clock, std::map<SessionId, Worker> workers,
                   std::map<SessionId, Finished> finished)
    : workers_(std::move(workers)), finished_(std::move(finished)), min_clock_(min_clock) {
  ForgetTicks();
}

void JobClock::Forget(Clock counted) {
  const auto it = at_.find(counted);
  if (--it->second == 0) at_.erase(it);
}

void JobClock::Count(Worker& worker, Clock counted) {
  Forget(std::exchange(worker.counted, counted));
  at_[counted] += 1;
}

void JobClock::Join(SessionId session, Clock start, uint32_t rank) {
  const Worker worker{.rank = rank, .start = start, .counted = start, .pending = {}};
  if (workers_.emplace(session, worker).second) at_[start] += 1;
}

void JobClock::Leave(SessionId session) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Forget(it->second.counted);
  workers_.erase(it);
  if (!workers_.empty()) return;
  Clock last = min_clock_;
  for (const auto& [id, finished] : finished_) last = std::max(last, finished.end);
  Advance(last);
}

void JobClock::Finish(SessionId session, Clock clock) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  if (clock > min_clock_) finished_[session] = {.start = it->second.start, .end = clock};
  Leave(session);
}

void JobClock::Advance(Clock min_clock) {
  min_clock_ = std::max(min_clock_, min_clock);
  std::erase_if(finished_, [this](const auto& entry) { return entry.second.end <= min_clock_; });
}

void JobClock::Tick(SessionId session, Clock clock, const LineCounts& seals, const LineCounts& here) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  const Clock newest = worker.pending.empty() ? worker.counted : worker.pending.back().first;
  if (clock <= newest) return;
  if (worker.pending.size() == kPendingTicksMax) worker.pending.pop_back();
  worker.pending.emplace_back(clock, seals);
  Taken(session, here);
}

void JobClock::Taken(SessionId session, const LineCounts& here) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  const auto counts = [&](const LineCounts& seals) {
    const bool arrived = here.At(Line::kArrival) >= seals.At(Line::kArrival);
    return here.Covers(seals) || Planted(Bug::kTickCountedEarly) ||
           (arrived && Planted(Bug::kFoldBeforeParts));
  };
  while (!worker.pending.empty() && counts(worker.pending.front().second)) {
    Count(worker, worker.pending.front().first);
    worker.pending.pop_front();
  }
}

void JobClock::Reached(SessionId session, Clock clock, const LineCounts& here) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  const auto tick = std::find_if(worker.pending.begin(), worker.pending.end(),
                                 [clock](const auto& pending) { return pending.first >= clock; });
  if (tick == worker.pending.end() || clock <= worker.counted) return;
  if (here.At(Line::kArrival) < tick->second.At(Line::kArrival)) return;
  Count(worker, clock);
  while (!worker.pending.empty() && worker.pending.front().first <= clock) worker.pending.pop_front();
}

void JobClock::ForgetTicks() {
  at_.clear();
  for (auto& [session, worker] : workers_) {
    worker.counted = std::max(worker.start, min_clock_);
    worker.pending.clear();
    at_[worker.counted] += 1;
  }
}

std::optional<Clock> JobClock::Candidate() const {
  if (at_.empty() || at_.begin()->first <= min_clock_) return std::nullopt;
  return at_.begin()->first;
}

size_t JobClock::Members(Clock clock) const {
  const auto joined = std::count_if(workers_.begin(), workers_.end(),
                                    [clock](const auto& entry) { return entry.second.start <= clock; });
  const auto left = std::count_if(finished_.begin(), finished_.end(), [clock](const auto& entry) {
    return entry.second.start <= clock && clock < entry.second.end;
  });
  return static_cast<size_t>(joined + left);
}

std::optional<SessionId> JobClock::Slowest() const {
  const auto it = std::min_element(workers_.begin(), workers_.end(), [](const auto& a, const auto& b) {
    return a.second.counted < b.second.counted;
  });
  if (it == workers_.end()) return std::nullopt;
  return it->first;
}

}  // namespace paceline::clock
