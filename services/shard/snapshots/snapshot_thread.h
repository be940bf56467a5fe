#pragma once

#include <memory>
#include <utility>

#include "libs/world/task_thread.h"
#include "services/shard/snapshots/snapshot_runner.h"

namespace paceline::shard {

// A thread that works on snapshots' files. Thread-safe.
class SnapshotThread final : public SnapshotRunner {
 public:
  explicit SnapshotThread(std::unique_ptr<snapshot::Files> files) : files_(std::move(files)) {}

  void Run(Task task, absl::Duration delay = absl::ZeroDuration()) override {
    thread_.Run([this, task = std::move(task)]() mutable { task(*files_); }, delay);
  }
  // Returns when the task under way has ended; no other one is begun.
  void Stop() { thread_.Stop(); }

 private:
  const std::unique_ptr<snapshot::Files> files_;
  world::TaskThread thread_;
};

}  // namespace paceline::shard
