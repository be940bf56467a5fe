#include "services/shard/snapshots/snapshot_thread.h"

#include "libs/world/real_clock.h"

namespace paceline::shard {

SnapshotThread::SnapshotThread(std::unique_ptr<snapshot::Files> files)
    : files_(std::move(files)), thread_([this] { Loop(); }) {}

SnapshotThread::~SnapshotThread() {
  Stop();
}

void SnapshotThread::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void SnapshotThread::Run(Task task, absl::Duration delay) {
  {
    MutexLock lock(&mutex_);
    // Tasks that are due at once keep their order even if the clock jumps.
    const absl::Time due =
        delay <= absl::ZeroDuration() ? absl::InfinitePast() : world::RealClock().Now() + delay;
    tasks_.emplace(std::pair(due, ++last_), std::move(task));
  }
  changed_.Signal();
}

bool SnapshotThread::Next(Task& task) {
  MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stop_ || (!tasks_.empty() && tasks_.begin()->first.first <= world::RealClock().Now());
  };
  while (!ready()) {
    if (tasks_.empty()) {
      changed_.Await(&mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stop_ || !tasks_.empty(); });
    } else {
      changed_.AwaitFor(&mutex_, tasks_.begin()->first.first - world::RealClock().Now(), ready);
    }
  }
  if (stop_) return false;
  task = std::move(tasks_.extract(tasks_.begin()).mapped());
  return true;
}

void SnapshotThread::Loop() {
  Task task;
  while (Next(task)) {
    task(*files_);
    task = nullptr;  // what it holds ends here, not with the next one
  }
}

}  // namespace paceline::shard
