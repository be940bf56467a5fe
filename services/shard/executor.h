#pragma once

#include <deque>
#include <mutex>

#include "absl/functional/any_invocable.h"

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
  void Run(Task task);

  size_t depth() const;

 private:
  // Guards what follows. Of the standard library because the thread sanitizer sees that one: the installed
  // Abseil is not built for it.
  mutable std::mutex mutex_;
  std::deque<Task> queue_;
  bool owned_ = false;
};

}  // namespace paceline::shard
