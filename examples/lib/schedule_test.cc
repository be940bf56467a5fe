#include "examples/lib/schedule.h"

#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> FirstNumbers(size_t n) {
  std::vector<uint32_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

TEST(EpochOrderTest, IsAPermutation) {
  for (size_t n : {0, 1, 2, 7, 1000}) {
    std::vector<uint32_t> order = EpochOrder(n, 3, 2);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, FirstNumbers(n));
  }
}

TEST(EpochOrderTest, DependsOnSeedAndEpoch) {
  EXPECT_EQ(EpochOrder(100, 1, 0), EpochOrder(100, 1, 0));
  EXPECT_NE(EpochOrder(100, 1, 0), EpochOrder(100, 1, 1));
  EXPECT_NE(EpochOrder(100, 1, 0), EpochOrder(100, 2, 0));
  EXPECT_NE(EpochOrder(100, 1, 1), EpochOrder(100, 2, 0));
}

TEST(EpochOrderTest, IsTheSameEverywhere) {
  EXPECT_THAT(EpochOrder(8, 1, 0), ElementsAre(0, 5, 2, 7, 3, 4, 1, 6));
}

// Every row is in every place equally often: 4-sigma bounds on 8,000 shuffles of 5.
TEST(EpochOrderTest, IsFair) {
  std::vector<int> at_front(5);
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    ++at_front[EpochOrder(5, seed, 0)[0]];
  }
  for (int count : at_front) {
    EXPECT_NEAR(count, 1600, 144);
  }
}

TEST(ScheduleTest, OneWorkerGoesThroughTheOrder) {
  Schedule schedule({.examples = 10, .batch_size = 4, .workers = 1, .epochs = 2, .seed = 9}, 0);
  EXPECT_EQ(schedule.clocks_per_epoch(), 3u);
  ASSERT_EQ(schedule.clocks(), 6u);
  std::vector<uint32_t> visited;
  for (size_t clock = 0; clock < schedule.clocks(); ++clock) {
    absl::Span<const uint32_t> rows = schedule.Rows(clock);
    EXPECT_EQ(rows.size(), clock % 3 == 2 ? 2u : 4u);
    visited.insert(visited.end(), rows.begin(), rows.end());
  }
  std::vector<uint32_t> expected = EpochOrder(10, 9, 0);
  const std::vector<uint32_t> second = EpochOrder(10, 9, 1);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(visited, expected);
}

TEST(ScheduleTest, WorkersTakeTurns) {
  const ScheduleOptions options = {.examples = 103, .batch_size = 5, .workers = 4, .epochs = 3, .seed = 2};
  std::vector<Schedule> workers;
  for (size_t worker = 0; worker < options.workers; ++worker) {
    workers.emplace_back(options, worker);
  }
  ASSERT_EQ(workers[0].clocks_per_epoch(), 6u);  // 21 batches for 4
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    std::vector<uint32_t> visited;
    for (size_t clock = 0; clock < 6; ++clock) {
      for (Schedule& worker : workers) {
        absl::Span<const uint32_t> rows = worker.Rows(static_cast<size_t>(epoch) * 6 + clock);
        visited.insert(visited.end(), rows.begin(), rows.end());
      }
    }
    EXPECT_EQ(visited, EpochOrder(103, 2, epoch));
  }
}

TEST(ScheduleTest, AWorkerWithoutABatchGetsNone) {
  Schedule last({.examples = 5, .batch_size = 5, .workers = 3, .epochs = 2, .seed = 1}, 2);
  EXPECT_EQ(last.clocks(), 2u);
  EXPECT_THAT(last.Rows(0), IsEmpty());
  EXPECT_THAT(last.Rows(1), IsEmpty());
}

TEST(ScheduleTest, ClocksMayBeAskedForInAnyOrder) {
  const ScheduleOptions options = {.examples = 50, .batch_size = 5, .workers = 2, .epochs = 2, .seed = 1};
  Schedule forward(options, 1), backward(options, 1);
  std::vector<std::vector<uint32_t>> seen;
  for (size_t clock = 0; clock < forward.clocks(); ++clock) {
    absl::Span<const uint32_t> rows = forward.Rows(clock);
    seen.emplace_back(rows.begin(), rows.end());
  }
  for (size_t clock = seen.size(); clock-- > 0;) {
    EXPECT_EQ(backward.Rows(clock), absl::MakeConstSpan(seen[clock]));
  }
}

TEST(ScheduleTest, NoExamplesGiveNoClocks) {
  EXPECT_EQ(Schedule({.examples = 0, .batch_size = 5, .workers = 2, .epochs = 2, .seed = 1}, 0).clocks(), 0u);
}

}  // namespace
}  // namespace paceline::examples
