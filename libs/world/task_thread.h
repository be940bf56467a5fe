#pragma once

#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace paceline::world {

// A thread for tasks that block: it does them one by one, in the order in which they are due, and those that
// are due at once in the order in which they were given. Thread-safe.
class TaskThread {
 public:
  using Task = absl::AnyInvocable<void()>;

  TaskThread();
  // Calls Stop.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;

  // Does `task`, at the earliest after `delay`; never, if Stop comes before.
  void Run(Task task, absl::Duration delay = absl::ZeroDuration()) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when the task under way has ended; no other one is begun.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop();
  // False: it is the end.
  bool Next(Task& task) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  // By when they are due, and the order in which they came.
  std::map<std::pair<absl::Time, uint64_t>, Task> tasks_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paceline::world
