#include "libs/world/task_thread.h"

#include "libs/world/real_clock.h"

namespace paceline::world {

TaskThread::TaskThread() : thread_([this] { Loop(); }) {}

TaskThread::~TaskThread() {
  Stop();
}

void TaskThread::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void TaskThread::Run(Task task, absl::Duration delay) {
  {
    MutexLock lock(&mutex_);
    if (stop_) return;
    // Tasks that are due at once keep their order even if the clock jumps.
    const absl::Time due = delay <= absl::ZeroDuration() ? absl::InfinitePast() : MonotonicNow() + delay;
    tasks_.emplace(std::pair(due, ++last_), std::move(task));
  }
  changed_.Signal();
}

bool TaskThread::Next(Task& task) {
  MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stop_ || (!tasks_.empty() && tasks_.begin()->first.first <= MonotonicNow());
  };
  while (!ready()) {
    if (tasks_.empty()) {
      changed_.Await(&mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stop_ || !tasks_.empty(); });
    } else {
      changed_.AwaitFor(&mutex_, tasks_.begin()->first.first - MonotonicNow(), ready);
    }
  }
  if (stop_) return false;
  task = std::move(tasks_.extract(tasks_.begin()).mapped());
  return true;
}

void TaskThread::Loop() {
  Task task;
  while (Next(task)) {
    task();
    task = nullptr;  // what it holds ends here, not with the next one
  }
}

}  // namespace paceline::world
