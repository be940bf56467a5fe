#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/record.h"
#include "libs/ring/placement.h"
#include "libs/table/store.h"

namespace paceline::log {

// What a record did, for whoever keeps books on it.
struct Effects {
  uint64_t rows_updated = 0;
  int64_t bytes_grown = 0;
};

// The replicated state of one segment: its rows, sessions, workers' clocks and tables, all a function of the
// log applied so far. It judges nothing: whether a record may be written is the primary's decision
// (primary.h), and Apply trusts it. Single owner, no locks.
class Segment {
 public:
  struct Session {
    JobId job;
    clock::LineCounts applied;  // last number of each line: the whole dedup state
    bool finished = false;      // was a worker and is none any more, for good
  };

  Segment(SegmentId id, int ring_bits) : id_(id), ring_bits_(ring_bits) {}

  // Applies the record at version().v + 1. Cost is that of the rows it touches.
  Effects Apply(const Record& record);

  SegmentId id() const { return id_; }
  int ring_bits() const { return ring_bits_; }
  Lsn version() const { return version_; }  // last record applied; 0: none

  // nullptr: not open. The pointer is good until the session is closed.
  const Session* FindSession(SessionId session) const;
  // True if the session was closed here, so that a late opening must be refused.
  bool IsClosed(SessionId session) const;

  // What is not of the log is forgotten: another primary takes over from here.
  void ForgetSoftState();

  // The job's clocks; a job nobody joined has min clock 0 and no workers.
  clock::JobClock& ClockOf(JobId job) { return jobs_[job]; }
  const std::map<JobId, clock::JobClock>& jobs() const { return jobs_; }

  struct Table {
    std::shared_ptr<const TableInfo> info;
    ring::Placement placement;
    table::TableStore rows;
  };
  // nullptr: not opened here yet.
  const Table* FindTable(TableId table) const;

  uint64_t rows() const;
  uint64_t bytes() const;  // memory held by rows

  // Equal for two members that applied the same log: covers rows, slots, sessions, workers and min clocks.
  uint64_t Hash() const;

 private:
  void On(const OpenTable& record, Effects& effects);
  void On(const OpenSession& record, Effects& effects);
  void On(const Join& record, Effects& effects);
  void On(const Finish& record, Effects& effects);
  void On(const Evict& record, Effects& effects);
  void On(const Advance& record, Effects& effects);
  void On(const Update& record, Effects& effects);
  void UpdateRanges(Table& table, const Update& record);

  SegmentId id_;
  int ring_bits_;
  Lsn version_;
  // Node-based, so that FindSession's pointers stay good.
  std::map<SessionId, Session> sessions_;
  std::set<SessionId> closed_;  // above the floor
  SessionId closed_floor_;
  std::map<JobId, clock::JobClock> jobs_;
  std::map<TableId, std::unique_ptr<Table>> tables_;
};

}  // namespace paceline::log
