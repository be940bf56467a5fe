#pragma once

#include <cstdint>
#include <memory>

#include "libs/base/ids.h"
#include "libs/log/change_log.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment.h"

// The services of a shard that the primary and the followers of a segment use. Those that all segments share
// must be thread-safe.
namespace paceline::log {

// Memory for rows.
class RowMemory {
 public:
  virtual ~RowMemory() = default;
  // False: the shard is full, and the part must be refused OVER_BUDGET.
  virtual bool Admits(uint64_t more_bytes) = 0;
  virtual void Grown(int64_t bytes) = 0;
};

// Room for parts of aggregated tables that wait to be folded. The default has no bound.
class StagingRoom {
 public:
  virtual ~StagingRoom() = default;
  // Takes `bytes` if there is room. Parts of a clock `ahead` of the next one to be folded find room only
  // while at most half is taken: otherwise the fast workers could keep out the slow one that everybody waits
  // for.
  virtual bool Stage(uint64_t /*bytes*/, bool /*ahead*/) { return true; }
  virtual void Unstage(uint64_t /*bytes*/) {}
  virtual uint64_t staging_max() const { return UINT64_MAX; }
};

// Receives the records that are applied to segments: their way to the disk, to the history and to the
// metrics. Called by the segment's owner. The default does nothing.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // The record was applied to `segment`: written here by its primary, or received from there.
  virtual void Applied(const Segment& /*segment*/, const AppliedRecord& /*record*/) {}
  // An image from the primary has replaced the state here, and its pages follow; or the segment begins with
  // its disk's content.
  virtual void Installed(const Segment& /*segment*/) {}
  // The primary of `epoch` has answered a read, or acknowledged parts.
  virtual void Answered(const Segment& /*segment*/, Epoch /*epoch*/) {}
  // A record at the primary has updated so many rows.
  virtual void RowsUpdated(uint64_t /*rows*/) {}
  // True: the disk does not work, and so much waits for it that new parts must wait too.
  virtual bool DiskBehind() const { return false; }
  // True: so much waits for the disk that loads must wait. Nothing else holds them to its pace.
  virtual bool DiskSlow() const { return false; }
};

struct ShardSide {
  ShardSide() = default;
  // `all` is each of the three.
  template <class All>
  ShardSide(const std::shared_ptr<All>& all)  // NOLINT: implicit, as for a pointer to a base
      : memory(all), staging(all), records(all) {}

  std::shared_ptr<RowMemory> memory;
  std::shared_ptr<StagingRoom> staging;
  std::shared_ptr<RecordSink> records;
  size_t changes_max = ChangeLog::kRowsMax;  // of rows of each table in a segment, for ChangeTracker
};

}  // namespace paceline::log
