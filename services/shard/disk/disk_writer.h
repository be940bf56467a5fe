#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/engine/engine.h"
#include "services/shard/disk/disk.h"
#include "services/shard/disk/disk_queue.h"

namespace paceline::shard {

// A disk behind a thread, which does the steps of a DiskQueue and logs when the disk fails. Thread-safe.
class DiskWriter final : public Disk {
 public:
  // `engine` has been loaded.
  explicit DiskWriter(std::unique_ptr<engine::Engine> engine);
  // Writes and syncs what is pending, unless the disk fails, and joins the thread.
  ~DiskWriter() override;

  void Write(engine::Batch batch, Synced synced = nullptr) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Does the work of the destructor. Calls nobody back afterwards, and writes nothing that comes later.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t pending_bytes() const override { return pending_bytes_.load(std::memory_order_relaxed); }

  Done done() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t engine_bytes() const override { return engine_bytes_.load(std::memory_order_relaxed); }
  uint64_t synced_position() const override { return synced_position_.load(std::memory_order_relaxed); }

  Health health() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // The result of the last step.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Step = DiskQueue::Step;

  void Run();
  // Waits for something to do; kNothing: it is the end.
  Step Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void Do(Step step) ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<engine::Engine> engine_;
  std::atomic<uint64_t> synced_position_;   // what was loaded was synced
  std::atomic<uint64_t> pending_bytes_{0};  // the queue's, for those who ask with each part
  std::atomic<uint64_t> engine_bytes_{0};
  uint64_t steps_ = 0;  // of the thread
  mutable Mutex mutex_;
  CondVar changed_;
  DiskQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paceline::shard
