#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/base/tsan.h"
#include "libs/world/clock.h"

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
// due. Sleeps in between.
class EventLoop {
 public:
  EventLoop() = default;
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

   private:
    EventLoop& loop_;
  };

  // Runs until Stop was called and no call uses the queue any more. Calls `on_time` whenever the time
  // `next()` has come on `clock`.
  void Run(const world::Clock& clock, absl::FunctionRef<absl::Time()> next,
           absl::FunctionRef<void()> on_time);

  // Makes the loop evaluate `next` again. Thread-safe.
  void Wake();
  // Thread-safe.
  void Stop();

 private:
  class Awake : public Event {
   public:
    explicit Awake(EventLoop& loop) : loop_(loop) {}
    void Complete(bool ok) override;

   private:
    EventLoop& loop_;
  };

  grpc::CompletionQueue queue_;
  std::atomic<int64_t> uses_{0};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  bool waking_ ABSL_GUARDED_BY(mutex_) = false;  // the alarm is set and has not come back
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  Awake awake_{*this};
};

}  // namespace paceline::rpc
