#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/id_ranges.h"
#include "libs/log/record.h"
#include "libs/log/rule_schedule.h"
#include "libs/ring/placement.h"
#include "libs/table/store.h"
#include "libs/table/table_copy.h"

namespace paceline::v1 {
class PageImage;
class SegmentImage;
}  // namespace paceline::v1

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
    clock::LineCounts applied;       // last number of each line: the whole dedup state
    bool finished = false;           // was a worker and is none any more, for good
    Clock next_clock = 0;            // all its updates so far are of smaller clocks
    std::string secret_sha256 = {};  // as in OpenSession
  };

  Segment(SegmentId id, int ring_bits) : id_(id), ring_bits_(ring_bits) {}

  // Applies the record at version().v + 1. Cost is that of the rows it touches.
  Effects Apply(const Record& record);

  SegmentId id() const { return id_; }
  int ring_bits() const { return ring_bits_; }
  Lsn version() const { return version_; }  // last record applied; 0: none
  Epoch epoch() const { return epoch_; }    // in which that record was written; 0: none

  // nullptr: not open. The pointer is good until the session is closed.
  const Session* FindSession(SessionId session) const;
  const std::map<SessionId, Session>& sessions() const { return sessions_; }
  // True if the session was closed here, so that a late opening must be refused.
  bool IsClosed(SessionId session) const;

  // The highest number of each kind that the log has ever had, as far as the state still says it.
  struct HighestIds {
    SessionId session;
    JobId job;
    TableId table;
  };
  HighestIds Highest() const;

  // What is not of the log is forgotten: another primary takes over from here.
  void ForgetSoftState();

  // The job's clocks; a job nobody joined has min clock 0 and no workers.
  clock::JobClock& ClockOf(JobId job) { return jobs_[job]; }
  Clock MinClockOf(JobId job) const;
  // All updates of the job's workers so far are of smaller clocks. O(workers).
  Clock NextClockOf(JobId job) const;
  const std::map<JobId, clock::JobClock>& jobs() const { return jobs_; }

  struct Table {
    std::shared_ptr<const TableInfo> info;
    ring::Placement placement;
    table::TableStore rows;
    RuleSchedule rules;
    uint64_t rule_in_use = 0;  // the stage of `rules` that `rows` works by
  };
  // nullptr: not opened here yet, or dropped.
  const Table* FindTable(TableId table) const;
  // What was written of a job's snapshots; ids, 0: nothing.
  struct Snapshots {
    uint64_t cut = 0;     // the last one
    uint64_t loaded = 0;  // the last one that was loaded as a whole
  };
  Snapshots SnapshotsOf(JobId job) const;

  // True if the table was dropped here, so that a late part or read must not open it again.
  bool IsDropped(TableId table) const { return dropped_.Contains(table.v); }
  const std::map<TableId, std::unique_ptr<Table>>& tables() const { return tables_; }

  // -- a copy of a job's rows as they are now, made while records go on being applied (table_copy.h) --
  // One of each job at a time. As the store's, one table after the other; tables that are dropped meanwhile
  // are left out. It is no part of the replicated state.
  void BeginCopy(JobId job, const std::shared_ptr<table::CopyMemory>& memory);
  absl::StatusOr<bool> NextOfCopy(JobId job, table::CopiedRows* out);
  void EndCopy(JobId job);

  uint64_t rows() const;
  uint64_t bytes() const;  // memory held by rows

  // Equal for two members that applied the same log: covers rows, slots, sessions, workers,
  // min clocks, rates and what was dropped.
  uint64_t Hash() const;

 private:
  // How it leaves memory and comes back: segment_image.h.
  friend v1::SegmentImage ImageOf(const Segment& segment);
  friend absl::StatusOr<Segment> SegmentFromImage(const v1::SegmentImage& image, SegmentId expected,
                                                  int ring_bits);
  friend absl::Status InstallPage(Segment& segment, const v1::PageImage& page);

  // An empty table. REQUIRES: its schema is valid.
  static std::unique_ptr<Table> MakeTable(std::shared_ptr<const TableInfo> info, int ring_bits);

  void On(const OpenTable& record, Effects& effects);
  void On(const OpenSession& record, Effects& effects);
  void On(const Join& record, Effects& effects);
  void On(const Finish& record, Effects& effects);
  void On(const Evict& record, Effects& effects);
  void On(const Advance& record, Effects& effects);
  void On(const Update& record, Effects& effects);
  void On(const Fold& record, Effects& effects);
  void On(const DropTable& record, Effects& effects);
  void On(const ChangeRule& record, Effects& effects);
  void On(const CloseJob& record, Effects& effects);
  void On(const BeginEpoch& record, Effects& effects);
  void On(const Cut& record, Effects& effects);
  void On(const Load& record, Effects& effects);
  void On(const EndLoad& record, Effects& effects);
  void Drop(TableId table, Effects& effects);
  // The rows work by the rates of `clock` from now on.
  void UseRulesOf(Table& table, Clock clock);
  void UpdateRanges(Table& table, const Update& record);

  SegmentId id_;
  int ring_bits_;
  Lsn version_;
  Epoch epoch_;
  // Node-based, so that FindSession's pointers stay good.
  std::map<SessionId, Session> sessions_;
  std::set<SessionId> closed_;  // above the floor
  SessionId closed_floor_;
  std::map<JobId, clock::JobClock> jobs_;
  std::map<TableId, std::unique_ptr<Table>> tables_;
  std::map<JobId, Snapshots> snapshots_;
  IdRanges dropped_;  // ids are given out in a row, so there are hardly more ranges than tables
};

}  // namespace paceline::log
