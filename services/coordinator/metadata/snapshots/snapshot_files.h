#pragma once

#include <cstdint>
#include <functional>

#include "libs/snapshot/files.h"

namespace paceline::coordinator {

// Access to the manifests of snapshots. Calls never block.
class SnapshotFiles {
 public:
  virtual ~SnapshotFiles() = default;
  // Runs `task`, which may block, outside of the coordinator; tasks run one after the other, in the order of
  // the calls. Then runs `done`, which enters the coordinator like an answer from a shard (shard_caller.h).
  virtual void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) = 0;
  // The date, for people: seconds since 1970.
  virtual int64_t UnixSeconds() const = 0;
};

}  // namespace paceline::coordinator
