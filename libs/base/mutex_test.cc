#include "libs/base/mutex.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace paceline {
namespace {

// The test's own time limit ends a hang here.

TEST(MutexTest, OneThreadAtATime) {
  Mutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000);
}

TEST(CondVarTest, HandsWorkFromThreadToThread) {
  Mutex mutex;
  CondVar changed;
  std::deque<int> queue;
  int64_t sum = 0;
  std::thread taker([&] {
    for (int i = 0; i < 1'000; ++i) {
      MutexLock lock(&mutex);
      changed.Await(&mutex, [&] { return !queue.empty(); });
      sum += queue.front();
      queue.pop_front();
    }
  });
  for (int i = 0; i < 1'000; ++i) {
    MutexLock lock(&mutex);
    queue.push_back(i);
    changed.Signal();
  }
  taker.join();
  EXPECT_EQ(sum, 999 * 1'000 / 2);
}

TEST(CondVarTest, AWaitEndsWithItsTime) {
  Mutex mutex;
  CondVar changed;
  MutexLock lock(&mutex);
  EXPECT_FALSE(changed.AwaitFor(&mutex, absl::Milliseconds(1), [] { return false; }));
  EXPECT_FALSE(changed.AwaitFor(&mutex, -absl::InfiniteDuration(), [] { return false; }));
  EXPECT_TRUE(changed.AwaitFor(&mutex, absl::InfiniteDuration(), [] { return true; }));
}

TEST(NotificationTest, AWaiterSeesWritesBeforeTheNotification) {
  for (int round = 0; round < 200; ++round) {
    struct Outcome {
      Notification done;
      int value = 0;
    };
    auto outcome = std::make_unique<Outcome>();
    std::thread setter([o = outcome.get()] {
      o->value = 7;
      o->done.Notify();
    });
    outcome->done.WaitForNotification();
    EXPECT_EQ(outcome->value, 7);
    outcome.reset();  // at once: the setter touches it no more
    setter.join();
  }
}

TEST(NotificationTest, SaysWhetherItHasHappened) {
  Notification notification;
  EXPECT_FALSE(notification.HasBeenNotified());
  EXPECT_FALSE(notification.WaitForNotificationWithTimeout(absl::Milliseconds(1)));
  notification.Notify();
  EXPECT_TRUE(notification.HasBeenNotified());
  EXPECT_TRUE(notification.WaitForNotificationWithTimeout(absl::ZeroDuration()));
}

}  // namespace
}  // namespace paceline
