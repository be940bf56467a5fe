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
#include "services/coordinator/metadata/candidate.h"

namespace paceline::coordinator {

// Runs a coordinator, as a Candidate, among threads: one lock around it, and a thread that lets its time
// pass.
//
// What the core says to others is said after the lock is let go: whoever hears it — gRPC, mostly — may then
// call back from any thread, and a slow listener holds up nobody else. Thread-safe.
class CoreHost {
 public:
  // `clock` must outlive the host.
  explicit CoreHost(const world::Clock& clock) : clock_(clock) {}
  // Calls Stop.
  ~CoreHost();

  // Makes the candidate, which may call `caller` at once, and starts its time. Fails as Candidate::Start
  // does. `on_step_down` is called under the lock. Call once, before anything else.
  absl::Status Start(Options options, Store& store, ShardCaller& caller, Probe& probe,
                     Candidate::OnStepDown on_step_down = nullptr);

  // Calls visit(candidate) under the lock, and then runs, without it, what was left to Later meanwhile.
  // REQUIRES: Start returned OK; not called from within a visit.
  template <class F>
  auto Visit(F visit) -> decltype(visit(std::declval<Candidate&>())) {
    // Runs last, after the result was made and the lock let go.
    const LaterRunner runner(*this);
    const std::lock_guard lock(mutex_);
    const Waker waker(*this);
    return visit(*candidate_);
  }

  // Leaves `tell` to the end of the visit under way. REQUIRES: called from within a visit.
  void Later(std::function<void()> tell) { later_.push_back(std::move(tell)); }

  // Ends the coordinator's time, resigns, and answers all that waits, and all that comes later, UNAVAILABLE.
  // Does nothing the second time.
  void Stop();

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

  void RunLater();
  void WakeIfEarlier();
  void PassTime();
  // False: the time has ended.
  bool WaitForDeadline();

  const world::Clock& clock_;
  // Guards what follows. Of the standard library because the thread sanitizer sees that one: the installed
  // Abseil is not built for it.
  std::mutex mutex_;
  std::condition_variable earlier_;
  std::unique_ptr<Candidate> candidate_;
  std::vector<std::function<void()>> later_;
  absl::Time waits_until_ = absl::InfinitePast();
  bool ended_ = false;

  std::thread time_;
};

}  // namespace paceline::coordinator
