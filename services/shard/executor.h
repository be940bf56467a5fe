#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"

namespace paceline::shard {

class Helper;

// A queue plus an owner token. Tasks run one at a time in the order they came, on whichever thread finds the
// token free: usually the one that brings the task, without a hand-over between threads. What a group of
// segments owns is touched only by tasks of its executor and needs no lock.
//
// A thread runs at most kTurn tasks and then passes the token to the helper, so that nobody who has something
// else to do — read streams, watch deadlines, beat — is held by others who keep the queue full. Without a
// helper it runs the queue dry.
//
// Thread-safe. A task may call Run of this or another executor; its own is then queued behind it.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;
  static constexpr size_t kTurn = 32;

  // `helper`, if there is one, must be there until the last call has returned, and be gone, with what
  // it was given done, before the executor is.
  // `clock`, which must outlive it, times its work; without one busy() is 0.
  explicit Executor(Helper* helper = nullptr, const world::Clock* clock = nullptr)
      : helper_(helper), clock_(clock) {}

  // Queues `task`, and runs the queue unless another thread does.
  void Run(Task task);
  // The same, but leaves the queue to the helper, if there is one, so that this thread can do other work
  // meanwhile. To wake the helper costs some microseconds. Call TakeBack when the other work is done.
  void RunBeside(Task task);
  // Runs a turn of the queue if it was left to the helper, by whomever, and the helper has not begun: it may
  // be busy, or have no core.
  void TakeBack();
  // Run for a task that takes long, as a slice of a reduction. Of all that came by this call one runs,
  // then what else has come meanwhile, then the next: however many they are, a push waits for one of them.
  void RunLong(Task task);

  // `after` runs behind each group of tasks, as a task does: what they had in common is done once. Before the
  // first Run.
  void AfterGroup(Task after) { after_group_ = std::move(after); }

  size_t depth() const;
  // How long tasks have run so far; with what they ran of other executors meanwhile.
  absl::Duration busy() const { return absl::Nanoseconds(busy_ns_.load(std::memory_order_relaxed)); }

 private:
  friend class Helper;

  void RunNextLong();
  // Queues the task. True: the token was free, and is the caller's.
  bool TakesToken(Task task);
  // REQUIRES: the caller has the token. Runs one turn; the token is free then, or the helper's.
  void Drain();
  // The same; true: the helper is to go on.
  bool RunTurn();

  Helper* const helper_;
  const world::Clock* const clock_;
  std::atomic<int64_t> busy_ns_{0};
  Task after_group_;
  // Guards what follows. Of the standard library because the thread sanitizer sees that one: the installed
  // Abseil is not built for it.
  mutable std::mutex mutex_;
  std::deque<Task> queue_;
  std::deque<Task> long_;
  bool long_queued_ = false;  // RunNextLong is in queue_, or runs
  bool owned_ = false;
};

// A thread that runs the executors that others leave to it, as at the end of their turn: a turn each, round
// robin.
class Helper {
 public:
  Helper();
  // Returns when its tasks have run.
  ~Helper();
  Helper(const Helper&) = delete;

 private:
  friend class Executor;

  void Take(Executor& executor);
  // True: the executor was waiting, and the token is the caller's again.
  bool TakeBack(Executor& executor);
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Executor*> given_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace paceline::shard
