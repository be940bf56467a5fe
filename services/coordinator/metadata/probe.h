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
  // The session is in the state its record says; `was` is the one before, STATE_UNSPECIFIED for a new one.
  // CLOSING with `evicted` set is an eviction.
  virtual void SessionMoved(const SessionRecord& /*session*/, SessionRecord::State /*was*/) {}
  virtual void TableCreated(const v1::Table& /*table*/) {}
  // A call to a shard failed, or left segments open, and will be repeated.
  virtual void CallRepeated(const v1::ShardInfo& /*shard*/, const std::string& /*why*/) {}
  // A commit failed.
  virtual void StoreFailed(const absl::Status& /*status*/) {}
  // The coordinator was not run for this long; silence counts from now.
  virtual void Paused(absl::Duration /*gap*/) {}
};

}  // namespace paceline::coordinator
