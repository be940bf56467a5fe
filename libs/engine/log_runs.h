#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "libs/base/ids.h"

namespace paceline::engine {

// Which groups of a shared log somebody still needs. Segments write into one log, group behind group, and
// each cuts its own part at its own pace; what the disk can give back is the log's old end, up to the first
// group that holds a record of some segment that is not cut. Kept by runs of about kRunBytes instead of by
// groups, so that it stays small. Plain value.
class LogRuns {
 public:
  static constexpr uint64_t kRunBytes = uint64_t{1} << 20;

  // Group `group`, the newest, holds a record of the segment. REQUIRES: groups ascend.
  void Append(uint64_t group, SegmentId segment, Lsn lsn, uint64_t bytes);
  // The segment needs no record up to `lsn`.
  void Cut(SegmentId segment, Lsn lsn);
  // It needs no record of the groups before `first_group`; others are of a new log, which begins with any
  // LSN.
  void Reset(SegmentId segment, uint64_t first_group);

  // Groups before this one are needed by nobody. `next` is the group to be written next.
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
