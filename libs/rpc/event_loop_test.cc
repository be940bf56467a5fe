#include "libs/rpc/event_loop.h"

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "libs/rpc/deadline.h"
#include "libs/world/real_clock.h"

namespace paceline::rpc {
namespace {

constexpr absl::Duration kLongEnough = absl::Seconds(30);

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

// A completion at once, on whichever thread takes events.
class Rings : public Event {
 public:
  explicit Rings(EventLoop& loop) : use_(loop), loop_(loop) {}

  void Set() {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(&loop_.queue(), After(absl::ZeroDuration()), Tag());
  }
  void Complete(bool) override {
    const std::lock_guard lock(mutex_);
    by_ = std::this_thread::get_id();
    ++count_;
    rang_.notify_all();
  }
  int count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::thread::id by() const {
    const std::lock_guard lock(mutex_);
    return by_;
  }
  void Await(int count) {
    std::unique_lock lock(mutex_);
    rang_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  const EventLoop::Use use_;
  EventLoop& loop_;
  std::unique_ptr<grpc::Alarm> alarm_;
  mutable std::mutex mutex_;
  std::condition_variable rang_;
  int count_ = 0;
  std::thread::id by_;
};

class CarryTest : public testing::Test {
 protected:
  ~CarryTest() override {
    loop_.Stop();
    thread_.join();
  }

  // Waits for a completion as a blocking call does.
  void Wait(Rings& rings) {
    const int after = rings.count() + 1;
    rings.Set();
    const auto rang = [&] { return rings.count() >= after; };
    const Turn::DoneFn done = rang;
    if (loop_.CarryUntil(done)) return;
    rings.Await(after);
    loop_.Awake(done);
  }

  const world::RealClock clock_;
  EventLoop loop_;
  std::mutex mutex_;
  absl::Time next_ = absl::InfiniteFuture();
  std::condition_variable timer_ran_;
  int timers_ = 0;
  std::thread thread_{[this] {
    loop_.Run(
        clock_,
        [this] {
          const std::lock_guard lock(mutex_);
          return next_;
        },
        [this] {
          const std::lock_guard lock(mutex_);
          next_ = absl::InfiniteFuture();
          ++timers_;
          timer_ran_.notify_all();
        });
  }};
};

TEST_F(CarryTest, AThreadThatWaitsAgainAndAgainTakesEventsItself) {
  Rings rings(loop_);
  const absl::Time limit = world::MonotonicNow() + kLongEnough;
  while (rings.by() != std::this_thread::get_id()) {
    ASSERT_TRUE(world::MonotonicNow() < limit) << "the loop's thread takes them all";
    Wait(rings);
  }
  Wait(rings);
  // … and the loop's thread takes them where nobody waits.
  while (rings.by() != thread_.get_id()) {
    ASSERT_TRUE(world::MonotonicNow() < limit) << "the loop's thread takes none";
    const int after = rings.count() + 1;
    rings.Set();
    rings.Await(after);
  }
}

TEST_F(CarryTest, NoCompletionIsLostWhereSeveralThreadsWaitInTurns) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Rings rings(loop_);
      for (int i = 0; i < 500; ++i) Wait(rings);
      EXPECT_EQ(rings.count(), 500);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CarryTest, ATimerRunsWhileAThreadCarriesAndEndsItsWait) {
  Rings rings(loop_);
  const auto timers = [this] {
    const std::lock_guard lock(mutex_);
    return timers_;
  };
  for (int i = 1; i <= 20; ++i) {
    Wait(rings);
    {
      const std::lock_guard lock(mutex_);
      next_ = clock_.Now();
    }
    loop_.Wake();
    const auto ran = [&] { return timers() >= i; };
    const Turn::DoneFn done = ran;
    if (loop_.CarryUntil(done)) continue;
    {
      std::unique_lock lock(mutex_);
      timer_ran_.wait(lock, [&] { return timers_ >= i; });
    }
    loop_.Awake(done);
  }
}

TEST_F(CarryTest, AWaitThatCarriesEndsWithTheLoop) {
  Rings rings(loop_);
  for (int i = 0; i < 10; ++i) Wait(rings);
  const auto never = [] { return false; };
  const Turn::DoneFn done = never;
  std::thread stops([&] { loop_.Stop(); });
  EXPECT_FALSE(loop_.CarryUntil(done));
  loop_.Awake(done);
  stops.join();
}

}  // namespace
}  // namespace paceline::rpc
