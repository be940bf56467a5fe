#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "services/coordinator/metadata/leadership/candidate.h"

namespace paceline::coordinator {

// Runs a coordinator, as a Candidate, among threads: one lock around it, and one thread that calls OnTime.
//
// Messages to others leave after the lock is released. So a receiver (mostly gRPC) may call back from any
// thread, and a slow one holds up no other. Thread-safe.
class CoreHost {
 public:
  // `clock` must outlive the host.
  explicit CoreHost(const world::Clock& clock) : clock_(clock) {}
  // Calls Stop.
  ~CoreHost();

  // Creates the candidate, which may call `caller` at once, and starts the time thread. Fails as
  // Candidate::Start does. `on_step_down` is called under the lock. Call once, before anything else.
  absl::Status Start(Options options, Store& store, ShardCaller& caller, Probe& probe,
                     Candidate::OnStepDown on_step_down = nullptr);

  // Calls visit(candidate) under the lock; afterwards, without the lock, runs the functions that were passed
  // to Later. REQUIRES: Start returned OK; not called from within a visit.
  template <class F>
  auto Visit(F visit) -> decltype(visit(std::declval<Candidate&>())) {
    // Runs last, after the result was made and the lock released.
    const LaterRunner runner(*this);
    const std::lock_guard lock(mutex_);
    const Waker waker(*this);
    return visit(*candidate_);
  }

  // Runs `tell` at the end of the visit under way. REQUIRES: called from within a visit.
  void Later(std::function<void()> tell) { later_.push_back(std::move(tell)); }

  // Stops the time thread, resigns, and answers all waiting and later requests UNAVAILABLE. Does nothing the
  // second time.
  void Stop();

  const world::Clock& clock() const { return clock_; }

 private:
  // On destruction runs the functions passed to Later, by this thread's visit or another's.
  class LaterRunner {
   public:
    explicit LaterRunner(CoreHost& host) : host_(host) {}
    ~LaterRunner() { host_.RunLater(); }

   private:
    CoreHost& host_;
  };
  // On destruction wakes the time thread if the visit has made a deadline earlier.
  class Waker {
   public:
    explicit Waker(CoreHost& host) : host_(host) {}
    ~Waker() { host_.WakeIfEarlier(); }

   private:
    CoreHost& host_;
  };

  void RunLater();
  void WakeIfEarlier();
  void PassTime();
  // False: the host is being stopped.
  bool WaitForDeadline();

  const world::Clock& clock_;
  // Guards the members below. A standard-library lock, because ThreadSanitizer sees it; it does not see those
  // of the installed Abseil.
  std::mutex mutex_;
  std::condition_variable earlier_;
  std::unique_ptr<Candidate> candidate_;
  std::vector<std::function<void()>> later_;
  absl::Time waits_until_ = absl::InfinitePast();
  bool ended_ = false;

  std::thread time_;
};

}  // namespace paceline::coordinator
