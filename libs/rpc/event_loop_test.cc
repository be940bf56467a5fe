#include "libs/rpc/event_loop.h"

#include <future>
#include <mutex>
#include <thread>

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
  std::mutex mutex;
  absl::Time next = absl::InfiniteFuture();
  std::promise<void> ran;
  std::thread thread([&] {
    loop.Run(
        clock,
        [&] {
          const std::lock_guard lock(mutex);
          return next;
        },
        [&] {
          const std::lock_guard lock(mutex);
          next = absl::InfiniteFuture();
          ran.set_value();
        });
  });
  {
    const std::lock_guard lock(mutex);
    next = clock.Now() + absl::Milliseconds(1);
  }
  loop.Wake();
  EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
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
