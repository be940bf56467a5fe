#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/record.h"
#include "libs/ring/segment_map.h"

namespace paceline::sim {

// The log of one segment, as far as it concerns one session.
struct LoggedSession {
  bool opened = false;
  bool closed = false;
  bool joined = false;
  bool finished = false;
  Clock start = 0;
  Clock end = 0;  // of a session that has finished
  uint32_t rank = 0;
  clock::LineCounts applied;
  Clock counts_below = UINT64_MAX;  // its updates of aggregated tables of larger clocks do not count
  Clock next_clock = 0;             // its updates are of smaller clocks

  // Records that the parts of the line up to `number` are logged, the new ones by record `lsn`.
  void At(Line line, PartNumber number, Lsn lsn) {
    std::vector<Lsn>& of_line = (*lsns_)[static_cast<size_t>(line) - 1];
    of_line.resize(std::max<size_t>(of_line.size(), number), lsn);
  }
  // LSNs of its parts: that of number n is at n - 1.
  const std::vector<Lsn>& LsnsOf(Line line) const { return (*lsns_)[static_cast<size_t>(line) - 1]; }
  // True: folds wait, or waited, for its updates of this clock.
  bool Takes(Clock clock) const { return start <= clock && (AtWork() || (finished && clock < end)); }
  // This is an earlier state, and later records were discarded.
  void ForgetLater() {
    for (const Line line : {Line::kArrival, Line::kAggregated})
      (*lsns_)[static_cast<size_t>(line) - 1].resize(applied.At(line));
  }

  bool AtWork() const { return joined && !finished && !closed; }

 private:
  // Shared with earlier states: it only grows, and a state is copied with every record.
  using Lsns = std::array<std::vector<Lsn>, 2>;
  std::shared_ptr<Lsns> lsns_ = std::make_shared<Lsns>();
};

// The log's content of one job's clocks.
struct LoggedJob {
  Clock min_clock = 0;
  Clock certified = 0;  // the largest min clock a reader was given
  uint64_t loaded = 0;  // the load that it has completely
};

// The log's content of one table.
struct LoggedTable {
  bool dropped = false;
  struct Rates {
    Clock clock = 0;
    float lr = 0;
  };
  using Rows = std::map<uint64_t, std::vector<double>>;
  std::map<uint64_t, Rates> rates;   // of every change, as it was logged last
  std::shared_ptr<const Rows> rows;  // the rows that a table of rates, or of means, must hold; null: not kept
};

// The log's content of one job at the time of a cut.
struct LoggedCut {
  struct Of {
    clock::LineCounts applied;
    bool at_work = false;
    bool gone = false;  // closed before its last tick
  };
  uint64_t id = 0;
  JobId job;
  Clock clock = 0;
  std::map<SessionId, Of> sessions;
  std::map<TableId, std::shared_ptr<const LoggedTable::Rows>> rates;
};

// The log of one segment as it was written, over all its primaries. The simulator keeps it beside the
// segment's own state.
struct SegmentLedger {
  Lsn lsn;
  Epoch epoch;                              // of the newest record or move
  Lsn committed;                            // the position that a primary considered held by every member
  std::map<Epoch, Lsn> began;               // the last record before each
  std::map<Epoch, ring::Member> primaries;  // the member that has answered in each
  std::map<SessionId, LoggedSession> sessions;
  std::map<JobId, LoggedJob> jobs;
  std::map<JobId, Clock> closed;  // the last min clock of jobs that are closed
  std::map<TableId, LoggedTable> tables;
  std::map<log::Subject, uint64_t> changes;  // the last one of each
  uint64_t change_floor = 0;

  // Another epoch began before that version: it was never part of the log that counts.
  bool IsVoid(Epoch version_epoch, Lsn version) const {
    for (auto later = began.upper_bound(version_epoch); later != began.end(); ++later) {
      if (later->second < version) return true;
    }
    return false;
  }
  // The member that acted last.
  ring::Member Primary() const { return primaries.empty() ? ring::Member() : primaries.rbegin()->second; }
  Clock MinClock(JobId job) const {
    const auto it = jobs.find(job);
    return it == jobs.end() ? 0 : it->second.min_clock;
  }
  PartNumber Applied(SessionId session, Line line) const {
    const auto it = sessions.find(session);
    return it == sessions.end() ? 0 : it->second.applied.At(line);
  }
};

}  // namespace paceline::sim
