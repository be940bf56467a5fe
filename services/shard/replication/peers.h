#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "libs/world/port.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::shard {

// A shard reaches other shards and the coordinator through this. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual world::Dialer& dialer() = 0;
  // `done` runs once, on any thread, within a bounded time. Never blocks.
  virtual void ChangeConfigs(v1::ChangeConfigsRequest request,
                             std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) = 0;
};

}  // namespace paceline::shard
