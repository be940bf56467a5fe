#include "libs/rpc/event_loop.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/world/real_clock.h"

namespace paceline::rpc {
namespace {

TEST(EventLoopTest, EndsAtOnceHoweverOftenItIsMade) {
  // An alarm that is set by Stop may still be firing when the loop is destroyed.
  const world::RealClock clock;
  for (int i = 0; i < 300; ++i) {
    EventLoop loop;
    std::thread thread([&] {
      loop.Run(
          clock, [] { return absl::InfiniteFuture(); }, [] {});
    });
    loop.Stop();
    thread.join();
  }
}

TEST(EventLoopTest, RunsTheTimerWhenItIsDueAndLooksAgainWhenWoken) {
  const world::RealClock clock;
  EventLoop loop;
  absl::Mutex mutex;
  absl::Time next = absl::InfiniteFuture();
  absl::Notification ran;
  std::thread thread([&] {
    loop.Run(
        clock,
        [&] {
          absl::MutexLock lock(&mutex);
          return next;
        },
        [&] {
          absl::MutexLock lock(&mutex);
          next = absl::InfiniteFuture();
          ran.Notify();
        });
  });
  {
    absl::MutexLock lock(&mutex);
    next = clock.Now() + absl::Milliseconds(1);
  }
  loop.Wake();
  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Seconds(30)));
  loop.Stop();
  thread.join();
}

TEST(EventLoopTest, DoesNotEndWhileItsQueueIsUsed) {
  const world::RealClock clock;
  EventLoop loop;
  auto use = std::make_unique<EventLoop::Use>(loop);
  std::atomic<bool> ended{false};
  std::thread thread([&] {
    loop.Run(
        clock, [] { return absl::InfiniteFuture(); }, [] {});
    ended = true;
  });
  loop.Stop();
  EXPECT_FALSE(ended);
  use = nullptr;
  thread.join();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace paceline::rpc
