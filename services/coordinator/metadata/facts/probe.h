#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// Reports the coordinator's work as it happens, for logs and metrics. Calls do not overlap and are made under
// the coordinator's lock: implementations take note and return. The default does nothing.
class Probe {
 public:
  virtual ~Probe() = default;
  // A process became a shard; `again`: it is a new start of a known shard.
  virtual void ShardJoined(const v1::ShardInfo& /*shard*/, bool /*again*/) {}
  virtual void MapChanged(const v1::Map& /*map*/) {}
  // The map still names an earlier start of this shard for some segments: their data is gone.
  virtual void SegmentsLost(const v1::ShardInfo& /*shard*/, size_t /*segments*/) {}
  // Replicas became primaries of this many segments: in place of a silent primary; or as planned.
  virtual void SegmentsTakenOver(size_t /*segments*/) {}
  virtual void SegmentsHandedOver(size_t /*segments*/) {}
  // The segment is to go from one shard to another, as its primary or with its data, because of its load.
  virtual void MovesByLoad(uint32_t /*segment*/, uint32_t /*from*/, uint32_t /*to*/) {}
  // The session has entered the state in its record from `was`, STATE_UNSPECIFIED for a new session. CLOSING
  // with `evicted` set is an eviction.
  virtual void SessionMoved(const SessionRecord& /*session*/, SessionRecord::State /*was*/) {}
  virtual void TableCreated(const v1::Table& /*table*/) {}
  // The table is in no list any more; its rows are being freed.
  virtual void TableDropped(const v1::Table& /*table*/) {}
  // Every segment has logged the rates that the table now shows.
  virtual void RatesChanged(const v1::Table& /*table*/) {}
  // The bound that its readers follow.
  virtual void BoundChanged(const v1::Table& /*table*/) {}
  // Nothing of the job is left.
  virtual void JobDeleted(const JobRecord& /*job*/) {}
  // A call to a shard failed, or did not name all segments, and will be repeated.
  virtual void CallRepeated(const v1::ShardInfo& /*shard*/, const std::string& /*why*/) {}
  // This coordinator, one of several on its store, begins to lead; or no longer leads.
  virtual void LeadBegan(uint64_t /*term*/) {}
  virtual void LeadEnded(uint64_t /*term*/, const absl::Status& /*why*/) {}
  // The store was found to be an older copy; requests are no longer served.
  virtual void StoreBehind(const absl::Status& /*why*/) {}
  // A commit failed, or reading the leader's record did.
  virtual void StoreFailed(const absl::Status& /*status*/) {}
  // The coordinator did not run for this long; silence is counted anew.
  virtual void Paused(absl::Duration /*gap*/) {}
};

}  // namespace paceline::coordinator
