#pragma once

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace paceline::shard {

// A queue plus an owner token. Tasks run one at a time in the order they came, on whichever thread finds the
// token free: usually the one that brings the task, without a hand-over between threads. What a group of
// segments owns is touched only by tasks of its executor and needs no lock.
//
// Thread-safe. A task may call Run of this or another executor; its own is then queued behind it.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Queues `task`, and runs the queue dry unless somebody else is at it.
  void Run(Task task) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t depth() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool owned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::shard
