#include "libs/rpc/event_loop.h"

#include <algorithm>
#include <chrono>

namespace paceline::rpc {
namespace {

// No sleep is longer: system_clock, by which gRPC waits, cannot hold every time.
constexpr absl::Duration kSleepMax = absl::Hours(1);

}  // namespace

EventLoop::~EventLoop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  // A set alarm must be heard before it is destroyed: gRPC touches it once more when it fires.
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Event*>(tag)->Complete(ok);
}

void EventLoop::Awake::Complete(bool) {
  const std::lock_guard lock(loop_.mutex_);
  loop_.waking_ = false;
}

void EventLoop::Wake() {
  const std::lock_guard lock(mutex_);
  if (waking_ || over_) return;
  waking_ = true;
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(&queue_, std::chrono::system_clock::now(), static_cast<Event*>(&awake_));
}

void EventLoop::Stop() {
  stop_ = true;
  Wake();
}

void EventLoop::Run(const world::Clock& clock, absl::FunctionRef<absl::Time()> next,
                    absl::FunctionRef<void()> on_time) {
  while (!stop_ || uses_ > 0) {
    const absl::Duration sleep = std::clamp(next() - clock.Now(), absl::ZeroDuration(), kSleepMax);
    void* tag = nullptr;
    bool ok = false;
    const auto status =
        queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + absl::ToChronoMicroseconds(sleep));
    if (status == grpc::CompletionQueue::GOT_EVENT) static_cast<Event*>(tag)->Complete(ok);
    if (clock.Now() >= next()) on_time();
  }
}

}  // namespace paceline::rpc
