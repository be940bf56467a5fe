#include "libs/rpc/event_loop.h"

#include <algorithm>
#include <chrono>

#include "libs/rpc/deadline.h"
#include "libs/world/soon.h"

namespace paceline::rpc {
namespace {

// An upper bound for one sleep: gRPC's clock cannot represent every time.
constexpr absl::Duration kSleepMax = absl::Hours(1);

}  // namespace

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

void EventLoop::Awake::Complete(bool) {
  MutexLock lock(&loop_.mutex_);
  loop_.waking_ = false;
}

void EventLoop::Wake() {
  MutexLock lock(&mutex_);
  if (waking_ || over_) return;
  waking_ = true;
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(&queue_, rpc::After(absl::ZeroDuration()), awake_.Tag());
}

void EventLoop::Stop() {
  stop_ = true;
  Wake();
}

void EventLoop::Run(const world::Clock& clock, absl::FunctionRef<absl::Time()> next,
                    absl::FunctionRef<void()> on_time) {
  world::Soon soon;
  while (!stop_ || uses_ > 0) {
    const absl::Duration sleep = soon.empty()
                                     ? std::clamp(next() - clock.Now(), absl::ZeroDuration(), kSleepMax)
                                     : absl::ZeroDuration();
    void* tag = nullptr;
    bool ok = false;
    const auto status = queue_.AsyncNext(&tag, &ok, rpc::After(sleep));
    if (status == grpc::CompletionQueue::GOT_EVENT) {
      Event::Ended(tag, ok);
      soon.Taken();
    } else {
      soon.KickAll();
    }
    if (clock.Now() >= next()) on_time();
  }
}

}  // namespace paceline::rpc
