#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// What the coordinator tells about its work as it happens: for logs and metrics. Called one at a time, under
// the coordinator's lock: implementations take note and return. The default does nothing.
class Probe {
 public:
  virtual ~Probe() = default;
  // A process became a shard; `again`: it is a new start of one that was known.
  virtual void ShardJoined(const v1::ShardInfo& /*shard*/, bool /*again*/) {}
  virtual void MapChanged(const v1::Map& /*map*/) {}
  // Segments of the map belong to an earlier start of this shard: what they held is gone.
  virtual void SegmentsLost(const v1::ShardInfo& /*shard*/, size_t /*segments*/) {}
  // Replicas became primaries of this many segments, in place of a silent one; or as planned.
  virtual void SegmentsTakenOver(size_t /*segments*/) {}
  virtual void SegmentsHandedOver(size_t /*segments*/) {}
  // The session is in the state its record says; `was` is the one before, STATE_UNSPECIFIED for a new one.
  // CLOSING with `evicted` set is an eviction.
  virtual void SessionMoved(const SessionRecord& /*session*/, SessionRecord::State /*was*/) {}
  virtual void TableCreated(const v1::Table& /*table*/) {}
  // It is in no list any more; its rows are being freed.
  virtual void TableDropped(const v1::Table& /*table*/) {}
  // Every segment has logged the rates that the table shows now.
  virtual void RatesChanged(const v1::Table& /*table*/) {}
  // Nothing is left of it.
  virtual void JobDeleted(const JobRecord& /*job*/) {}
  // A call to a shard failed, or left segments open, and will be repeated.
  virtual void CallRepeated(const v1::ShardInfo& /*shard*/, const std::string& /*why*/) {}
  // This coordinator leads from now on, as one of several on its store; or no longer.
  virtual void LeadBegan(uint64_t /*term*/) {}
  virtual void LeadEnded(uint64_t /*term*/, const absl::Status& /*why*/) {}
  // The store was found to be an older copy; nobody is served any more.
  virtual void StoreBehind(const absl::Status& /*why*/) {}
  // A commit failed, or a look at who leads.
  virtual void StoreFailed(const absl::Status& /*status*/) {}
  // The coordinator was not run for this long; silence counts from now.
  virtual void Paused(absl::Duration /*gap*/) {}
};

}  // namespace paceline::coordinator
