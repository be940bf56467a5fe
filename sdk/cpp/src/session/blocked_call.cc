#include "sdk/cpp/src/session/blocked_call.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/world/real_clock.h"
#include "sdk/cpp/src/session/carrier.h"

namespace paceline {
namespace {

// Waits of this thread that ended before what they waited for.
struct Unresolved {
  absl::Time from;
  absl::Duration blocked;
};

thread_local std::shared_ptr<const sdk::Causes> ending;
thread_local std::optional<Unresolved> unresolved;
thread_local uint64_t carrier_id = 0;  // of the carrier below; 0: none
thread_local std::weak_ptr<sdk::Carrier> carrier;
thread_local sdk::BlockingCall* blocking_call = nullptr;

uint64_t NextCarrierId() {
  static std::atomic<uint64_t> carriers{0};
  return ++carriers;
}

}  // namespace

namespace sdk {
namespace {

class LockedLedger final : public TimeLedger {
 public:
  void Begin(uint64_t thread, absl::Time now) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    account_.Begin(thread, now);
  }
  void Blocked(uint64_t thread, const TimeAccount::Stay& stay, const Waited& waited) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    account_.Blocked(thread, stay, waited);
  }
  void Ended(const Waited& waited) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    account_.Ended(waited);
  }
  TimeSplit split() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return account_.split();
  }
  v1::WorkerTime Report() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return account_.Report();
  }

 private:
  mutable Mutex mutex_;
  TimeAccount account_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<TimeLedger> NewTimeLedger() {
  return std::make_shared<LockedLedger>();
}

Ending::Ending(std::shared_ptr<const Causes> causes) : before_(std::exchange(ending, std::move(causes))) {}
Ending::~Ending() {
  ending = std::move(before_);
}

Carrier::Carrier() : id_(NextCarrierId()) {}

void ThisThreadMayCarry(const Carrier& entered, absl::FunctionRef<std::shared_ptr<Carrier>()> shared) {
  if (carrier_id == entered.id()) return;
  carrier_id = entered.id();
  carrier = shared();
}

BlockingCall::BlockingCall(Carrier& carrier_of_call)
    : carrier_(carrier_of_call), outer_(std::exchange(blocking_call, this)) {}

BlockingCall::~BlockingCall() {
  blocking_call = outer_;
  if (sent_) carrier_.OnSent();
}

bool BlockingCall::IsHere() {
  return blocking_call != nullptr;
}

bool BlockingCall::Sent() {
  if (blocking_call == nullptr) return false;
  blocking_call->sent_ = true;
  return true;
}

void BlockingCall::Waits() {
  if (blocking_call != nullptr) blocking_call->sent_ = false;
}

uint64_t ThisThread() {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t number = ++threads;
  return number;
}

}  // namespace sdk

namespace internal {

const std::shared_ptr<const sdk::Causes>& EndingCauses() {
  return ending;
}

Carrying::Carrying(absl::FunctionRef<bool()> done) : done_(done) {
  if (done_()) return;
  sdk::BlockingCall::Waits();
  if (carrier_id == 0) return;
  std::shared_ptr<sdk::Carrier> here = carrier.lock();
  if (here != nullptr && !here->CarryUntil(done_)) sleeps_ = std::move(here);
}

Carrying::~Carrying() {
  if (sleeps_ != nullptr) sleeps_->Awake(done_);
}

BlockedCall::BlockedCall() : began_(world::MonotonicNow()) {}

void BlockedCall::End(const sdk::Causes* causes) {
  const absl::Time now = world::MonotonicNow();
  if (!unresolved.has_value()) unresolved = Unresolved{.from = began_, .blocked = {}};
  unresolved->blocked += now - began_;
  if (causes == nullptr) return;
  causes->ledger->Blocked(sdk::ThisThread(),
                          {.from = unresolved->from, .to = now, .blocked = unresolved->blocked},
                          causes->waited);
  unresolved.reset();
}

}  // namespace internal
}  // namespace paceline
