#pragma once

#include <cstdint>
#include <functional>

#include "libs/snapshot/files.h"

namespace paceline::coordinator {

// Where the coordinator reads and writes manifests of snapshots. Calls never block.
class SnapshotFiles {
 public:
  virtual ~SnapshotFiles() = default;
  // Runs `task`, which may block, beside the coordinator, one after the other in the order of the calls; and
  // then `done`, which enters the coordinator as answers of shards do (shard_caller.h).
  virtual void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) = 0;
  // Of the calendar, for people: seconds since 1970.
  virtual int64_t UnixSeconds() const = 0;
};

}  // namespace paceline::coordinator
