#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace paceline::rpc {

// Which thread takes events from a loop's queue: the loop's own, or a thread that waits for one of these
// events and carries meanwhile, so that nobody has to wake it.
//
// A carrier that has what it waited for leaves the queue to nobody: its next wait is likely to follow soon,
// and to wake the loop's thread in between would cost what carrying saves. Where none follows within kGrace,
// or an event is due sooner (Hurry), or several threads wait at once, the loop's thread takes the turn.
//
// Thread-safe. Each call costs a lock, unless it says that it waits.
class Turn {
 public:
  // Nobody takes events for this long at most. Where it was 0.4 ms, the timer by itself took a tenth of the
  // rate of small requests.
  static constexpr absl::Duration kGrace = absl::Milliseconds(2);

  // Whether a thread has what it waits for. Called with the lock held, by any thread, while its owner waits.
  using DoneFn = absl::FunctionRef<bool()>;
  enum class Sleep {
    kNow,         // it takes no events
    kMayCarryOn,  // its next wait may take events, if the queue is left to nobody
  };

  // -- the loop's own thread --

  // Waits until this thread has the turn; at once if it has it still. Calls `meanwhile`, without the lock,
  // after each kGrace that it has waited.
  void Take(absl::FunctionRef<void()> meanwhile) ABSL_LOCKS_EXCLUDED(mutex_);
  // After an event: leaves the queue to nobody, if the only thread that sleeps may carry on and has now what
  // it waits for.
  void Offer() ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on it keeps the turn: the loop is about to end.
  void Keep() ABSL_LOCKS_EXCLUDED(mutex_);

  // -- a thread that waits for `done()`, which must outlive the wait --

  // True: this thread takes events from now on, until EndCarry. False: another one does.
  bool BeginCarry() ABSL_LOCKS_EXCLUDED(mutex_);
  // `leave`: to nobody. Otherwise the loop's thread goes on at once.
  void EndCarry(bool leave) ABSL_LOCKS_EXCLUDED(mutex_);
  // It sleeps from now on, until Awake. The loop's thread takes the turn if nobody has it.
  void FallAsleep(const DoneFn& done, Sleep how) ABSL_LOCKS_EXCLUDED(mutex_);
  void Awake(const DoneFn& done) ABSL_LOCKS_EXCLUDED(mutex_);

  // -- any thread --

  // An event is due that no thread is about to wait for: the loop's thread takes the turn if nobody has it,
  // or when the carrier leaves.
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakenByLoop() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool Carried() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Holder { kNobody, kLoop, kCarrier };
  struct Sleeper {
    const DoneFn* done;
    Sleep how;
  };

  void LeaveToNobody() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HurryLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar hurried_;  // hurry_ is set, and nobody has the turn
  Holder holder_ ABSL_GUARDED_BY(mutex_) = Holder::kNobody;
  absl::Time left_ ABSL_GUARDED_BY(mutex_);    // when it was last left to nobody
  bool hurry_ ABSL_GUARDED_BY(mutex_) = true;  // the loop's thread must not wait for a carrier
  bool keep_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Sleeper> sleepers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::rpc
