#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "services/shard/snapshots/snapshot_runner.h"

namespace paceline::shard {

// A thread that works on snapshots' files. Thread-safe.
class SnapshotThread final : public SnapshotRunner {
 public:
  explicit SnapshotThread(std::unique_ptr<snapshot::Files> files);
  ~SnapshotThread() override;

  void Run(Task task, absl::Duration delay = absl::ZeroDuration()) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when the task under way has ended; no other one is begun.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop();
  // False: it is the end.
  bool Next(Task& task) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<snapshot::Files> files_;
  Mutex mutex_;
  CondVar changed_;
  // By when they are due, and the order in which they came.
  std::map<std::pair<absl::Time, uint64_t>, Task> tasks_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paceline::shard
