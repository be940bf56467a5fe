#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::coordinator {

// Whoever decides how many shards there are to be: the StatefulSet of which they are pods, NAME-0, NAME-1, …
// Calls never block.
class WantedShards {
 public:
  virtual ~WantedShards() = default;
  // NAME.
  virtual const std::string& name() const = 0;
  // Reads how many are wanted now. `done` enters the coordinator like an answer from a shard
  // (shard_caller.h); it has an error that says what is wrong and what to do if that cannot be read.
  virtual void Read(std::function<void(absl::StatusOr<uint32_t>)> done) = 0;
};

}  // namespace paceline::coordinator
