#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "libs/snapshot/files.h"
#include "libs/world/task_thread.h"
#include "libs/world/wall_clock.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/metadata/snapshots/snapshot_files.h"

namespace paceline::coordinator {

// A thread that reads and writes manifests, so that a volume that hangs holds up nothing else. Thread-safe.
class SnapshotDesk final : public SnapshotFiles {
 public:
  // `host` must outlive this object.
  SnapshotDesk(CoreHost& host, std::shared_ptr<snapshot::Files> files)
      : host_(host), files_(std::move(files)) {}

  void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) override {
    thread_.Run([this, task = std::move(task), done = std::move(done)] {
      task(*files_);
      host_.Visit([&](Candidate&) { done(); });
    });
  }
  int64_t UnixSeconds() const override { return absl::ToUnixSeconds(world::WallClock()); }
  // Returns when the task under way has ended; begins no other.
  void Stop() { thread_.Stop(); }

 private:
  CoreHost& host_;
  const std::shared_ptr<snapshot::Files> files_;
  world::TaskThread thread_;
};

}  // namespace paceline::coordinator
