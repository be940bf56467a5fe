#include "libs/rpc/turn.h"

#include <utility>

#include "libs/world/real_clock.h"

namespace paceline::rpc {

void Turn::Take(absl::FunctionRef<void()> meanwhile) {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (holder_ == Holder::kLoop) return;
      (void)hurried_.AwaitFor(&mutex_, kGrace, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return hurry_ && holder_ == Holder::kNobody;
      });
      if (holder_ == Holder::kNobody && (hurry_ || world::MonotonicNow() - left_ >= kGrace)) {
        holder_ = Holder::kLoop;
        hurry_ = false;
        return;
      }
    }
    meanwhile();
  }
}

void Turn::Offer() {
  MutexLock lock(&mutex_);
  // Hurry may have come while this thread took its event, and ask for another one: it is kept for that.
  const bool hurry = std::exchange(hurry_, false);
  if (hurry || keep_ || sleepers_.size() != 1) return;
  const Sleeper& only = sleepers_.front();
  if (only.how == Sleep::kMayCarryOn && (*only.done)()) LeaveToNobody();
}

void Turn::Keep() {
  MutexLock lock(&mutex_);
  keep_ = true;
  HurryLocked();
}

bool Turn::BeginCarry() {
  MutexLock lock(&mutex_);
  if (holder_ != Holder::kNobody || keep_ || !sleepers_.empty()) return false;
  holder_ = Holder::kCarrier;
  return true;
}

void Turn::EndCarry(bool leave) {
  MutexLock lock(&mutex_);
  LeaveToNobody();
  if (!leave || hurry_ || !sleepers_.empty()) HurryLocked();
}

void Turn::FallAsleep(const DoneFn& done, Sleep how) {
  MutexLock lock(&mutex_);
  sleepers_.push_back({.done = &done, .how = how});
  if (holder_ == Holder::kNobody) HurryLocked();
}

void Turn::Awake(const DoneFn& done) {
  MutexLock lock(&mutex_);
  std::erase_if(sleepers_, [&](const Sleeper& sleeper) { return sleeper.done == &done; });
}

void Turn::Hurry() {
  MutexLock lock(&mutex_);
  HurryLocked();
}

void Turn::LeaveToNobody() {
  holder_ = Holder::kNobody;
  left_ = world::MonotonicNow();
}

void Turn::HurryLocked() {
  hurry_ = true;
  if (holder_ == Holder::kNobody) hurried_.Signal();
}

bool Turn::TakenByLoop() const {
  MutexLock lock(&mutex_);
  return holder_ == Holder::kLoop;
}

bool Turn::Carried() const {
  MutexLock lock(&mutex_);
  return holder_ == Holder::kCarrier;
}

}  // namespace paceline::rpc
