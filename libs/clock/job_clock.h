#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>

#include "libs/base/ids.h"

namespace paceline::clock {

// Per line, how many parts. Index with At().
struct LineCounts {
  std::array<PartNumber, 2> counts{};

  PartNumber& At(Line line) { return counts[static_cast<size_t>(line) - 1]; }
  PartNumber At(Line line) const { return counts[static_cast<size_t>(line) - 1]; }
  // True if every line of `other` is covered by this.
  bool Covers(const LineCounts& other) const {
    return counts[0] >= other.counts[0] && counts[1] >= other.counts[1];
  }
  friend bool operator==(const LineCounts&, const LineCounts&) = default;
};

// The clocks of one job's workers in one segment: the members, how far each has come, and the min clock.
//
// Membership and the min clock are changed by log records only and are equal at every member of the segment.
// Ticks are soft: they live at the primary, and workers announce them again after a change of primary.
//
// A tick is *sealed*: "I am at `clock`, and my parts of smaller clocks are my first n here". It counts only
// once n parts are *here*, applied or, on the line of aggregated tables, staged; so it may come by another
// stream, or before the parts it speaks of, and never vouches for a part that was lost.
//
// Single owner, no locks. Costs O(log workers) a call; O(workers) for Slowest, Members and ForgetTicks.
class JobClock {
 public:
  // Ticks of one worker that wait for their parts; beyond this the newest replaces the one before it.
  static constexpr size_t kPendingTicksMax = 16;

  struct Worker {
    uint32_t rank = 0;
    Clock start = 0;    // it pushes nothing of smaller clocks
    Clock counted = 0;  // the largest clock ticked to whose parts are all here; at least `start`
    std::deque<std::pair<Clock, LineCounts>> pending;
  };
  // A worker that took part in the clocks start … end - 1.
  struct Finished {
    Clock start = 0;
    Clock end = 0;
  };

  JobClock() = default;
  // A copy of another member's clock. It knows no ticks: those are not replicated.
  JobClock(Clock min_clock, std::map<SessionId, Worker> workers, std::map<SessionId, Finished> finished);

  // -- log records --

  // Makes `session` a worker that starts at `start`. REQUIRES: start >= min_clock(), not a worker yet.
  void Join(SessionId session, Clock start, uint32_t rank);
  // The worker was evicted. Does nothing if the session is not a worker. The min clock stays until the next
  // Advance, unless no worker is left: no worker holds it back then, so it becomes the largest clock at which
  // a worker has finished, if that is larger.
  void Leave(SessionId session);
  // Removes a worker that has finished: it has ended every clock before `clock`. The min clock moves as in
  // Leave.
  void Finish(SessionId session, Clock clock);
  // Sets the min clock. REQUIRES: it does not fall.
  void Advance(Clock min_clock);

  // -- soft --

  // The worker says that it is at `clock`. `seals` counts its parts of smaller clocks, `here` those that are
  // here now. Late ticks, and ticks of a session that is not a worker, change nothing.
  void Tick(SessionId session, Clock clock, const LineCounts& seals, const LineCounts& here);
  // `here` is the new count of the worker's parts that are here: pending ticks may count now.
  void Taken(SessionId session, const LineCounts& here);

  // The worker's line of aggregated tables has come to a part of `clock`: no part of a smaller clock is
  // missing on that line. If a tick to that clock or beyond waits for nothing on the other line, the worker
  // counts as being at `clock`. Ticks may skip clocks; without this rule the part could wait for its own
  // worker's tick.
  void Reached(SessionId session, Clock clock, const LineCounts& here);

  // Forgets all ticks: another primary takes over, and workers announce their clocks to it again.
  void ForgetTicks();

  // -- questions --

  // True if no worker has taken part yet.
  bool IsNew() const { return min_clock_ == 0 && workers_.empty() && finished_.empty(); }
  Clock min_clock() const { return min_clock_; }
  // Workers that have finished at a clock that the min clock has not reached.
  const std::map<SessionId, Finished>& finished() const { return finished_; }
  // How many workers took part in `clock`, including those that have finished since. REQUIRES: clock is not
  // below the min clock.
  size_t Members(Clock clock) const;
  bool HasWorker(SessionId session) const { return workers_.contains(session); }
  const std::map<SessionId, Worker>& workers() const { return workers_; }
  // The clock that the min clock may advance to now; nullopt if it may not advance, or there is no worker.
  std::optional<Clock> Candidate() const;
  // The worker furthest behind: parked reads wait for it.
  std::optional<SessionId> Slowest() const;

 private:
  void Count(Worker& worker, Clock counted);
  void Forget(Clock counted);

  std::map<SessionId, Worker> workers_;
  std::map<Clock, size_t> at_;  // how many workers are counted at a clock
  std::map<SessionId, Finished> finished_;
  Clock min_clock_ = 0;
};

}  // namespace paceline::clock
