#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/base/spin.h"
#include "libs/base/tsan.h"
#include "libs/rpc/turn.h"
#include "libs/world/clock.h"
#include "libs/world/soon.h"

namespace paceline::rpc {

// A completion of a queue: every tag on an EventLoop's queue is an Event.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Complete(bool ok) = 0;

  // The tag to start an operation with. Everything before this call happens before Complete.
  void* Tag() {
    OrderBefore(this);
    return this;
  }
  // The operation started with `tag` has ended. The thread that drains the queue calls this.
  static void Ended(void* tag, bool ok) {
    OrderAfter(tag);
    static_cast<Event*>(tag)->Complete(ok);
  }
};

// One thread's loop over a completion queue and a clock: runs events as they complete, and a timer when it is
// due. Sleeps in between. Other threads may take events in its place (CarryUntil); timers are then up to
// Turn::kGrace late.
class EventLoop {
 public:
  EventLoop();
  // REQUIRES: Run has returned, or was never called and nothing was started on the queue.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;

  grpc::CompletionQueue& queue() { return queue_; }

  // Registers a call that uses the queue, for the life of the object: the loop does not end while there are
  // any.
  class Use {
   public:
    explicit Use(EventLoop& loop) : loop_(loop) { loop_.uses_.fetch_add(1); }
    ~Use() {
      if (loop_.uses_.fetch_sub(1) == 1) loop_.Wake();
    }
    Use(const Use&) = delete;
    EventLoop& loop() const { return loop_; }

   private:
    EventLoop& loop_;
  };

  // Runs until Stop was called and no call uses the queue any more. Calls `on_time` whenever the time
  // `next()` has come on `clock`.
  void Run(const world::Clock& clock, absl::FunctionRef<absl::Time()> next,
           absl::FunctionRef<void()> on_time);

  // For a thread that waits for what a completion brings: takes events itself until `done()`, which is called
  // after each of them, or until it seems better to sleep: after some milliseconds without one, or at once if
  // another thread takes them. What completes runs on this thread. Returns done(); if not, the thread must
  // sleep until then, and then call Awake. REQUIRES: this thread holds no lock that completions or `done`
  // take. Thread-safe.
  bool CarryUntil(const Turn::DoneFn& done);
  // The same without taking events.
  void FallAsleep(const Turn::DoneFn& done) { turn_.FallAsleep(done, Turn::Sleep::kNow); }
  void Awake(const Turn::DoneFn& done) { turn_.Awake(done); }
  // Counts the writes on the queue that have not completed. Thread-safe.
  void WriteBegun() { writes_.fetch_add(1); }
  void WriteEnded() { writes_.fetch_sub(1); }
  bool Writes() const { return writes_.load() > 0; }
  // A completion is due that no thread is about to wait for: the loop's thread takes events, unless another
  // one does. Thread-safe.
  void Hurry();

  // Makes the loop evaluate `next` again, within Turn::kGrace. Thread-safe.
  void Wake();
  // Thread-safe.
  void Stop();

 private:
  void Ring() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next event, for at most `timeout`, and what it completes; false: there was none.
  bool TakeEvent(absl::Duration timeout, world::Soon& soon);

  class Bell : public Event {
   public:
    explicit Bell(EventLoop& loop) : loop_(loop) {}
    void Complete(bool ok) override;

   private:
    EventLoop& loop_;
  };

  grpc::CompletionQueue queue_;
  Turn turn_;
  Spin carry_spin_;  // of whoever carries
  std::atomic<int64_t> uses_{0};
  std::atomic<int64_t> writes_{0};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  bool waking_ ABSL_GUARDED_BY(mutex_) = false;  // the alarm is set and has not come back
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_{*this};
};

}  // namespace paceline::rpc
