#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "libs/base/ids.h"

namespace paceline::engine {

// Tracks which groups of a shared log are still needed. All segments write into one log, group after group,
// and each cuts its own part at its own pace. The disk can free only the oldest end of the log: everything
// before the first group that holds an uncut record of any segment. To stay small it keeps runs of about
// kRunBytes instead of groups. Plain value.
class LogRuns {
 public:
  static constexpr uint64_t kRunBytes = uint64_t{1} << 20;

  // Group `group`, the newest, holds a record of the segment. REQUIRES: groups ascend.
  void Append(uint64_t group, SegmentId segment, Lsn lsn, uint64_t bytes);
  // The segment needs no record up to `lsn`.
  void Cut(SegmentId segment, Lsn lsn);
  // The segment needs no record of the groups before `first_group`. Later groups belong to a new log, which
  // may begin with any LSN.
  void Reset(SegmentId segment, uint64_t first_group);

  // All groups before the returned one are unneeded. `next` is the group to be written next.
  uint64_t OldestNeeded(uint64_t next);

 private:
  struct Run {
    uint64_t first = 0;  // group
    uint64_t last = 0;
    uint64_t bytes = 0;
    std::map<SegmentId, Lsn> newest;  // of each segment's records
  };
  struct Needs {
    Lsn after;  // no record up to it
    uint64_t from_group = 0;
  };

  bool Needed(const Run& run) const;

  std::deque<Run> runs_;
  std::map<SegmentId, Needs> needs_;
};

}  // namespace paceline::engine
