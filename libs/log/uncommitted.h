#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/log/record.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"
#include "libs/wire/packed.h"

namespace paceline::log {

// Holds back what a primary may say only once a record is committed: the marks of parts, the min clocks that
// certificates name, and the answers to the coordinator's changes. The caller passes in how far the log is
// committed, and safe on disks. Single owner, no locks.
class Uncommitted {
 public:
  // -- marks of parts --
  // `sink` is told the mark when the record `lsn` is committed. REQUIRES: `lsn` is no smaller than in earlier
  // calls.
  void Add(Lsn lsn, std::shared_ptr<AckSink> sink, wire::Mark mark);
  // Tells the marks of records up to `committed`. Returns the sinks that were told, in that order.
  std::vector<std::shared_ptr<AckSink>> Tell(Lsn committed);
  size_t marks() const { return marks_.size(); }
  // The record that the first mark waits for. REQUIRES: there is a mark.
  Lsn next() const { return marks_.front().lsn; }

  // -- min clocks --
  // A new epoch begins behind the last record of `segment`. Until that is committed, no min clock counts as
  // known to all members.
  void BeginEpoch(const Segment& segment, Lsn committed);
  // The last record of `segment` may have moved min clocks.
  void NoteMinClocks(const Segment& segment, Lsn committed);
  // The min clock that every member knows.
  Clock MinClock(JobId job, Lsn committed);
  // The job was closed.
  void Forget(JobId job);

  // -- the coordinator's changes: kind of record, and id --
  void AddChange(size_t kind, uint64_t id, Lsn lsn) { changes_[{kind, id}] = lsn; }
  // True if the record of the change, or else every record up to `before`, is safe.
  bool IsSafe(size_t kind, uint64_t id, Lsn before, Lsn safe);

 private:
  struct Mark {
    Lsn lsn;
    std::shared_ptr<AckSink> sink;
    wire::Mark mark;
  };
  struct MovedClock {
    Lsn lsn;
    JobId job;
    Clock min_clock = 0;
  };

  void Show(Lsn committed);

  std::deque<Mark> marks_;
  std::deque<MovedClock> moved_;
  std::map<JobId, Clock> written_;
  std::map<JobId, Clock> shown_;
  std::map<std::pair<size_t, uint64_t>, Lsn> changes_;  // those not known to be safe
};

}  // namespace paceline::log
