#include "libs/rpc/event_loop.h"

#include <algorithm>
#include <chrono>

#include "libs/rpc/deadline.h"
#include "libs/world/real_clock.h"

namespace paceline::rpc {
namespace {

// An upper bound for one sleep: gRPC's clock cannot represent every time.
constexpr absl::Duration kSleepMax = absl::Hours(1);
// A thread carries no longer than this without an event. What it waits for may also end by a call of another
// thread, which does not wake it: it looks after each step.
constexpr absl::Duration kCarryMax = absl::Milliseconds(4);
constexpr absl::Duration kCarryStep = absl::Milliseconds(1);
// Before it sleeps it looks for an event for this long, if that has paid lately.
constexpr absl::Duration kCarrySpin = absl::Microseconds(50);

// This thread is in CarryUntil, of whichever loop.
thread_local bool carrying = false;

}  // namespace

EventLoop::EventLoop() : carry_spin_(absl::ToInt64Nanoseconds(kCarrySpin)) {}

EventLoop::~EventLoop() {
  {
    MutexLock lock(&mutex_);
    over_ = true;
  }
  // An alarm that is set must be waited for before it is destroyed: gRPC touches it once more when it fires.
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) Event::Ended(tag, ok);
}

void EventLoop::Bell::Complete(bool) {
  MutexLock lock(&loop_.mutex_);
  loop_.waking_ = false;
}

void EventLoop::Wake() {
  // Otherwise the loop's thread looks at `next` before it sleeps for long.
  if (turn_.TakenByLoop()) Ring();
}

void EventLoop::Ring() {
  MutexLock lock(&mutex_);
  if (waking_ || over_) return;
  waking_ = true;
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(&queue_, rpc::After(absl::ZeroDuration()), bell_.Tag());
}

void EventLoop::Stop() {
  stop_ = true;
  turn_.Keep();
  Ring();
}

bool EventLoop::TakeEvent(absl::Duration timeout, world::Soon& soon) {
  void* tag = nullptr;
  bool ok = false;
  const bool wait = soon.empty() && timeout > absl::ZeroDuration();
  if (queue_.AsyncNext(&tag, &ok, wait ? rpc::After(timeout) : rpc::AtOnce()) ==
      grpc::CompletionQueue::GOT_EVENT) {
    Event::Ended(tag, ok);
    soon.Taken();
    return true;
  }
  soon.KickAll();
  return false;
}

void EventLoop::Run(const world::Clock& clock, absl::FunctionRef<absl::Time()> next,
                    absl::FunctionRef<void()> on_time) {
  const auto be_in_time = [&] {
    if (clock.Now() < next()) return;
    on_time();
    if (turn_.Carried()) Ring();  // it may have ended what the carrier waits for
  };
  world::Soon soon;
  while (!stop_ || uses_ > 0) {
    turn_.Take(be_in_time);
    (void)TakeEvent(std::clamp(next() - clock.Now(), absl::ZeroDuration(), kSleepMax), soon);
    be_in_time();
    if (soon.empty() && !Writes()) turn_.Offer();
  }
}

bool EventLoop::CarryUntil(const Turn::DoneFn& done) {
  if (carrying) return done();
  if (!turn_.BeginCarry()) {
    turn_.FallAsleep(done, Turn::Sleep::kMayCarryOn);
    return false;
  }
  carrying = true;
  bool found = false;
  {
    world::Soon soon;
    const absl::Time until = world::MonotonicNow() + kCarryMax;
    while (!(found = done()) && !stop_) {
      if (LookAWhile(carry_spin_, [&] { return TakeEvent(absl::ZeroDuration(), soon); })) continue;
      if (!TakeEvent(kCarryStep, soon) && soon.empty() && world::MonotonicNow() >= until) break;
    }
  }
  carrying = false;
  turn_.EndCarry(/*leave=*/found && !Writes());
  if (!found) turn_.FallAsleep(done, Turn::Sleep::kNow);
  return found;
}

void EventLoop::Hurry() {
  if (!carrying) turn_.Hurry();
}

}  // namespace paceline::rpc
