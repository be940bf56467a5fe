#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/change_numbers.h"
#include "libs/log/id_ranges.h"
#include "libs/log/record.h"
#include "libs/log/rule_schedule.h"
#include "libs/ring/placement.h"
#include "libs/table/store.h"
#include "libs/table/table_copy.h"

namespace paceline::v1 {
class SegmentImage;
}  // namespace paceline::v1

namespace paceline::log {

struct PackedPage;

// The effects of a record, for statistics.
struct Effects {
  uint64_t rows_updated = 0;
  int64_t bytes_grown = 0;
};

// The replicated state of one segment: its rows, sessions, workers' clocks and tables. All of it is a
// function of the log applied so far. The segment checks nothing: the primary decides whether a record may be
// written (primary.h), and Apply trusts it. Single owner, no locks.
class Segment {
 public:
  struct SessionState {
    JobId job;
    clock::LineCounts applied;       // last number of each line: all that is needed to detect repeats
    bool finished = false;           // it was a worker, and never becomes one again
    Clock next_clock = 0;            // all its updates so far are of smaller clocks
    std::string secret_sha256 = {};  // as in OpenSession
  };

  Segment(SegmentId id, int ring_bits) : id_(id), ring_bits_(ring_bits) {}

  // Applies the record at version().v + 1. Costs O(the rows that it touches).
  Effects Apply(const Record& record);

  SegmentId id() const { return id_; }
  int ring_bits() const { return ring_bits_; }
  Lsn version() const { return version_; }  // last record applied; 0: none
  Epoch epoch() const { return epoch_; }    // of that record; 0: none

  // nullptr: not open. The pointer is valid until the session is closed.
  const SessionState* FindSession(SessionId session) const;
  const std::map<SessionId, SessionState>& sessions() const { return sessions_; }
  // True if the session was closed here, so that a late opening must be refused.
  bool IsClosed(SessionId session) const;
  // True if it was closed since acknowledged data of it is gone.
  bool HasLostData(SessionId session) const { return lost_.contains(session); }

  // The changes of the coordinator that have begun here.
  const ChangeNumbers& changes() const { return changes_; }

  // The highest id of each kind in the log so far, as far as the state still shows it.
  struct HighestIds {
    SessionId session;
    JobId job;
    TableId table;
    uint64_t change = 0;  // of the coordinator
  };
  HighestIds Highest() const;

  // Drops the ticks, which are not part of the log: another primary takes over from here.
  void ForgetSoftState();

  // The job's clocks; a job without workers so far has min clock 0.
  clock::JobClock& ClockOf(JobId job) { return jobs_[job]; }
  Clock MinClockOf(JobId job) const;
  // The smallest clock above those of all updates by the job's workers so far. O(workers).
  Clock NextClockOf(JobId job) const;
  const std::map<JobId, clock::JobClock>& jobs() const { return jobs_; }

  struct Table {
    std::shared_ptr<const TableInfo> info;
    ring::Placement placement;
    table::TableStore rows;
    RuleSchedule rules;
    uint64_t rule_in_use = 0;  // the period of `rules` that `rows` uses now
  };
  // nullptr: not opened here yet, or dropped.
  const Table* FindTable(TableId table) const;
  // The ids of a job's last cut and load in this log; 0: none.
  struct SnapshotIds {
    uint64_t cut = 0;     // the last one
    uint64_t loaded = 0;  // the last load that was completed
  };
  SnapshotIds SnapshotsOf(JobId job) const;

  // True if the table was dropped here, so that a late part or read must not open it again.
  bool IsDropped(TableId table) const { return dropped_.Contains(table.v); }
  const std::map<TableId, std::unique_ptr<Table>>& tables() const { return tables_; }

  // -- a copy of a job's rows as they are now, made while records go on being applied (table_copy.h) --
  // There is one at a time for each job. It proceeds as the store's copy, table after table; tables dropped
  // meanwhile are left out. It is not part of the replicated state.
  void BeginCopy(JobId job, const std::shared_ptr<table::CopyMemory>& memory);
  absl::StatusOr<bool> NextOfCopy(JobId job, table::CopiedRows* out);
  void EndCopy(JobId job);

  uint64_t rows() const;
  uint64_t bytes() const;  // memory held by rows

  // Equal for two members that applied the same log: covers the image and all rows, with their slots.
  uint64_t Hash() const;

 private:
  // Writing to and reading from an image: segment_image.h.
  friend v1::SegmentImage ImageOf(const Segment& segment);
  friend absl::StatusOr<Segment> SegmentFromImage(const v1::SegmentImage& image, SegmentId expected,
                                                  int ring_bits);
  friend absl::Status InstallPage(Segment& segment, const PackedPage& page);

  static constexpr size_t kLostMax = 1024;

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
  void On(const BeginChange& record, Effects& effects);
  void Drop(TableId table, Effects& effects);
  // From now on the rows use the rates of `clock`.
  void UseRulesOf(Table& table, Clock clock);
  void UpdateRanges(Table& table, const Update& record);

  SegmentId id_;
  int ring_bits_;
  Lsn version_;
  Epoch epoch_;
  // Node-based, so that FindSession's pointers stay valid.
  std::map<SessionId, SessionState> sessions_;
  std::set<SessionId> closed_;  // above the floor
  SessionId closed_floor_;
  std::set<SessionId> lost_;  // of closed ones, the newest kLostMax
  ChangeNumbers changes_;
  std::map<JobId, clock::JobClock> jobs_;
  std::map<TableId, std::unique_ptr<Table>> tables_;
  std::map<JobId, SnapshotIds> snapshots_;
  IdRanges dropped_;  // ids are issued in sequence, so there are hardly more ranges than tables
};

}  // namespace paceline::log
