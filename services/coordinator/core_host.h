#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "libs/world/clock.h"
#include "services/coordinator/metadata/coordinator_core.h"

namespace paceline::coordinator {

// Runs a CoordinatorCore among threads: one lock around it, and a thread that lets its time pass.
//
// What the core says to others is said after the lock is let go: whoever hears it — gRPC, mostly — may then
// call back from any thread, and a slow listener holds up nobody else. Thread-safe.
class CoreHost {
 public:
  // What is passed by reference must outlive the host.
  explicit CoreHost(const world::Clock& clock) : clock_(clock) {}
  // Calls Stop.
  ~CoreHost();

  // Makes the core, which may call `caller` at once, and starts its time. Fails as CoordinatorCore::Create
  // does. Call once, before anything else.
  absl::Status Start(Options options, Store& store, ShardCaller& caller, Probe& probe);

  // Calls visit(core) under the lock, and then runs, without it, what was left to Later meanwhile. REQUIRES:
  // Start returned OK; not called from within a visit.
  template <class F>
  auto Visit(F visit) -> decltype(visit(std::declval<CoordinatorCore&>())) ABSL_LOCKS_EXCLUDED(mutex_) {
    // Runs last, after the result was made and the lock let go.
    const LaterRunner runner(*this);
    absl::MutexLock lock(&mutex_);
    const Waker waker(*this);
    return visit(*core_);
  }

  // Leaves `tell` to the end of the visit under way. REQUIRES: called from within a visit.
  void Later(std::function<void()> tell) { later_.push_back(std::move(tell)); }

  // Ends the core's time and answers all that waits, and all that comes later, UNAVAILABLE. Does nothing the
  // second time.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  const world::Clock& clock() const { return clock_; }

 private:
  // Runs what was left to Later by this thread's visit or another's, at its end.
  class LaterRunner {
   public:
    explicit LaterRunner(CoreHost& host) : host_(host) {}
    ~LaterRunner() { host_.RunLater(); }

   private:
    CoreHost& host_;
  };
  // Wakes the thread that lets time pass if the visit has made something due earlier.
  class Waker {
   public:
    explicit Waker(CoreHost& host) : host_(host) {}
    ~Waker() { host_.WakeIfEarlier(); }

   private:
    CoreHost& host_;
  };

  void RunLater() ABSL_LOCKS_EXCLUDED(mutex_);
  void WakeIfEarlier() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void PassTime() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: the time has ended.
  bool WaitForDeadline() ABSL_LOCKS_EXCLUDED(mutex_);

  const world::Clock& clock_;
  absl::Mutex mutex_;
  absl::CondVar earlier_;
  std::unique_ptr<CoordinatorCore> core_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> later_;  // guarded by mutex_; Later is called from within a visit
  absl::Time waits_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread time_;
};

}  // namespace paceline::coordinator
