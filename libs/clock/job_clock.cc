#include "libs/clock/job_clock.h"

#include <algorithm>

#include "libs/base/planted.h"

namespace paceline::clock {

void JobClock::Join(SessionId session, Clock start, uint32_t rank) {
  workers_.emplace(session, Worker{.rank = rank, .start = start, .counted = start, .pending = {}});
}

void JobClock::Leave(SessionId session) {
  workers_.erase(session);
}

void JobClock::Advance(Clock min_clock) {
  min_clock_ = std::max(min_clock_, min_clock);
}

void JobClock::Tick(SessionId session, Clock clock, const LineCounts& seals, const LineCounts& applied) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  const Clock newest = worker.pending.empty() ? worker.counted : worker.pending.back().first;
  if (clock <= newest) return;
  if (worker.pending.size() == kPendingTicksMax) worker.pending.pop_back();
  worker.pending.emplace_back(clock, seals);
  Taken(session, applied);
}

void JobClock::Taken(SessionId session, const LineCounts& applied) {
  const auto it = workers_.find(session);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  const auto counts = [&](const LineCounts& seals) {
    return applied.Covers(seals) || Planted(Bug::kTickCountedEarly);
  };
  while (!worker.pending.empty() && counts(worker.pending.front().second)) {
    worker.counted = worker.pending.front().first;
    worker.pending.pop_front();
  }
}

void JobClock::ForgetTicks() {
  for (auto& [session, worker] : workers_) {
    worker.counted = std::max(worker.start, min_clock_);
    worker.pending.clear();
  }
}

std::optional<Clock> JobClock::Candidate() const {
  const std::optional<SessionId> slowest = Slowest();
  if (!slowest.has_value()) return std::nullopt;
  const Clock lowest = workers_.at(*slowest).counted;
  if (lowest <= min_clock_) return std::nullopt;
  return lowest;
}

std::optional<SessionId> JobClock::Slowest() const {
  const auto it = std::min_element(workers_.begin(), workers_.end(), [](const auto& a, const auto& b) {
    return a.second.counted < b.second.counted;
  });
  if (it == workers_.end()) return std::nullopt;
  return it->first;
}

}  // namespace paceline::clock
