#include "services/shard/executor.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::shard {
namespace {

TEST(ExecutorTest, RunsOnTheCallersThreadWhenIdle) {
  Executor executor;
  std::thread::id ran;
  executor.Run([&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(executor.depth(), 0u);
}

TEST(ExecutorTest, ATaskThatBringsAnotherFinishesFirst) {
  Executor executor;
  std::vector<int> order;
  executor.Run([&] {
    executor.Run([&] { order.push_back(2); });
    order.push_back(1);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(ExecutorTest, BetweenLongTasksRunsWhatHasCome) {
  Executor executor;
  std::vector<std::string> ran;
  executor.Run([&] {
    for (int i = 0; i < 3; ++i) executor.RunLong([&, i] { ran.push_back(absl::StrCat("long ", i)); });
    executor.Run([&] { ran.push_back("push"); });
    executor.RunLong([&] {
      ran.push_back("long 3");
      executor.RunLong([&] { ran.push_back("long 4"); });
      executor.Run([&] { ran.push_back("another push"); });
    });
  });
  EXPECT_THAT(
      ran, ::testing::ElementsAre("long 0", "push", "long 1", "long 2", "long 3", "another push", "long 4"));
  executor.RunLong([&] { ran.push_back("alone"); });
  EXPECT_EQ(ran.back(), "alone");
}

TEST(ExecutorTest, BusyIsTheTimeForWhichTasksRun) {
  struct : world::Clock {
    absl::Time Now() const override { return now; }
    absl::Time now = absl::UnixEpoch();
  } clock;
  Executor executor(nullptr, &clock);
  executor.Run([&] { clock.now += absl::Seconds(2); });
  clock.now += absl::Hours(1);
  executor.Run([&] { clock.now += absl::Seconds(3); });
  EXPECT_EQ(executor.busy(), absl::Seconds(5));
}

TEST(ExecutorTest, ATaskIsDestroyedAtOnce) {
  Executor executor;
  auto held = std::make_shared<int>(0);
  long uses_in_the_next = 0;
  executor.Run([&] {
    executor.Run([held] {});
    executor.Run([&] { uses_in_the_next = held.use_count(); });
  });
  EXPECT_EQ(uses_in_the_next, 1);
}

TEST(ExecutorTest, TheHelperRunsWhatIsToRunBeside) {
  std::optional<Helper> helper(std::in_place);
  Executor executor(&*helper);
  std::promise<void> caller_is_free;
  std::promise<std::thread::id> ran;
  executor.RunBeside([&] {
    caller_is_free.get_future().wait();
    ran.set_value(std::this_thread::get_id());
  });
  caller_is_free.set_value();  // never, if the caller ran it
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  helper.reset();
}

TEST(ExecutorTest, WhatTheHelperHasNotBegunIsTakenBack) {
  std::optional<Helper> helper(std::in_place);
  Executor busy(&*helper);
  Executor executor(&*helper);
  std::promise<void> begun;
  std::promise<void> go_on;
  busy.RunBeside([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  std::thread::id ran;
  executor.RunBeside([&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::thread::id());
  executor.TakeBack();
  EXPECT_EQ(ran, std::this_thread::get_id());
  busy.TakeBack();  // does nothing: the helper has begun with it
  executor.TakeBack();
  go_on.set_value();
  helper.reset();
}

TEST(ExecutorTest, WithoutAHelperNothingIsLeft) {
  Executor executor;
  bool ran = false;
  executor.RunBeside([&] { ran = true; });
  EXPECT_TRUE(ran);
  executor.TakeBack();
}

TEST(ExecutorTest, AThreadIsHeldForOneTurnAndTheHelperGoesOn) {
  constexpr int kTasks = 10 * Executor::kTurn;
  std::optional<Helper> helper(std::in_place);
  Executor executor(&*helper);
  std::vector<std::thread::id> ran;  // touched by tasks only
  std::promise<void> seen;           // that the first turn has ended
  std::promise<void> done;
  executor.Run([&] {
    for (int i = 1; i < kTasks; ++i) {
      executor.Run([&, i] {
        if (ran.size() == Executor::kTurn) seen.get_future().wait();
        ran.push_back(std::this_thread::get_id());
        if (i + 1 == kTasks) done.set_value();
      });
    }
    ran.push_back(std::this_thread::get_id());
  });
  // Without the helper's thread, this one would wait for itself above.
  seen.set_value();
  done.get_future().wait();
  helper.reset();
  EXPECT_EQ(std::ranges::count(ran, std::this_thread::get_id()), Executor::kTurn);
  EXPECT_EQ(ran.size(), size_t{kTasks});
}

TEST(ExecutorTest, WithoutAHelperTheQueueIsRunDry) {
  constexpr int kTasks = 10 * Executor::kTurn;
  Executor executor;
  int ran = 0;
  std::function<void()> next = [&] {
    if (++ran < kTasks) executor.Run(next);
  };
  executor.Run(next);
  EXPECT_EQ(ran, kTasks);
}

TEST(ExecutorTest, AHelperServesItsExecutorsInTurn) {
  std::optional<Helper> helper(std::in_place);
  Executor busy(&*helper);
  Executor other(&*helper);
  std::atomic<bool> enough = false;
  std::promise<void> ended;
  std::function<void()> again = [&] { enough ? ended.set_value() : busy.Run(again); };
  busy.Run(again);
  std::promise<void> reached;
  other.Run([&] {  // more than a turn, so its end is the helper's
    for (size_t i = 0; i < 2 * Executor::kTurn; ++i) other.Run([] {});
    other.Run([&] { reached.set_value(); });
  });
  reached.get_future().wait();
  enough = true;
  ended.get_future().wait();
  helper.reset();
}

TEST(ExecutorTest, AHelperEndsWhenItsTasksAreDone) {
  std::optional<Helper> helper(std::in_place);
  Executor executor(&*helper);
  int ran = 0;
  std::function<void()> next = [&] {
    if (++ran < 1000) executor.Run(next);
  };
  executor.Run(next);
  helper.reset();
  EXPECT_EQ(ran, 1000);
}

class ExecutorThreadsTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Helper, ExecutorThreadsTest, ::testing::Bool());

TEST_P(ExecutorThreadsTest, TasksOfManyThreadsNeverOverlapAndKeepEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 20'000;
  std::optional<Helper> helper;
  if (GetParam()) helper.emplace();
  Executor executor(GetParam() ? &*helper : nullptr);
  std::vector<int> last(kThreads, -1);  // touched by tasks only: a race here is a race in the executor
  int64_t sum = 0;
  bool in_order = true;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kTasks; ++i) {
          executor.Run([&, t, i] {
            in_order = in_order && last[t] == i - 1;
            last[t] = i;
            sum += i;
          });
        }
      });
    }
  }
  helper.reset();  // it may have the last of them
  EXPECT_TRUE(in_order);
  EXPECT_EQ(sum, int64_t{kThreads} * kTasks * (kTasks - 1) / 2);
}

}  // namespace
}  // namespace paceline::shard
