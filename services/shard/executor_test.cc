#include "services/shard/executor.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::shard {
namespace {

TEST(ExecutorTest, RunsOnTheCallersThreadWhenNobodyElseDoes) {
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

TEST(ExecutorTest, WhatATaskHoldsIsLetGoAtOnce) {
  Executor executor;
  auto held = std::make_shared<int>(0);
  long uses_in_the_next = 0;
  executor.Run([&] {
    executor.Run([held] {});
    executor.Run([&] { uses_in_the_next = held.use_count(); });
  });
  EXPECT_EQ(uses_in_the_next, 1);
}

TEST(ExecutorTest, TasksOfManyThreadsNeverOverlapAndKeepEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 20'000;
  Executor executor;
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
  EXPECT_TRUE(in_order);
  EXPECT_EQ(sum, int64_t{kThreads} * kTasks * (kTasks - 1) / 2);
}

}  // namespace
}  // namespace paceline::shard
