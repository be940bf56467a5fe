#include "bench/peers/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "bench/peers/meters.h"
#include "bench/peers/plan.h"

namespace paceline::bench::peers {
namespace {

const Data kRows{.name = "rows of 16 values", .rows = 1'000, .dim = 16};

Figures Of(double requests_a_second, size_t batch) {
  Figures figures;
  for (int round = 0; round < 3; ++round) {
    Turn turn{.seconds = 2, .us = {}, .client_cpu_seconds = 0.5, .server_cpu_seconds = 0.25};
    turn.us.assign(static_cast<size_t>(2 * requests_a_second), 100.0f);
    figures.Add(turn, kRows, {.batch = batch, .keys = {}, .in_file = {}});
  }
  return figures;
}

Work Requests(size_t batch, size_t outstanding) {
  return {.batch = batch, .outstanding = outstanding, .keys = {}, .in_file = {}};
}

TEST(FiguresTest, RatesAreOfKeysAndCpuTimeIsOfBothProcesses) {
  const Figures ours = Of(100, 10);
  const Figures theirs = Of(50, 10);
  const std::vector<Result> results = Compare(kRows, Requests(10, 1), Op::kPush, Kind::kRanged, ours,
                                              {.name = "ps-lite flat", .skipped = {}, .figures = &theirs});
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(results[0].metric, "push keys/s");
  EXPECT_DOUBLE_EQ(results[0].value, 1'000);
  EXPECT_DOUBLE_EQ(results[0].limit, 500);
  EXPECT_TRUE(results[0].passes());
  EXPECT_EQ(results[1].metric, "push p50 us");
  EXPECT_DOUBLE_EQ(results[1].value, 100);
  EXPECT_EQ(results[3].metric, "push CPU ns/key");
  EXPECT_DOUBLE_EQ(results[3].value, 0.75e9 / 2'000);
  EXPECT_EQ(results[4].metric, "push client CPU ns/key");
  EXPECT_DOUBLE_EQ(results[4].value, 0.5e9 / 2'000);
}

TEST(FiguresTest, WhatWasSkippedNeverPasses) {
  const Figures ours = Of(100, 10);
  const std::vector<Result> results =
      Compare(kRows, Requests(10, 8), Op::kPull, Kind::kSparse, ours,
              {.name = "ps-lite flat", .skipped = "--ps-lite DIR is not given", .figures = nullptr});
  ASSERT_FALSE(results.empty());
  size_t with_goals = 0;
  for (const Result& result : results) {
    EXPECT_FALSE(result.passes()) << result.metric;
    with_goals += result.goal.has_value() ? 1 : 0;
  }
  EXPECT_EQ(with_goals, 2u);  // the rate, and CPU time of which less is better
  for (const nlohmann::json& one : ToJson(results)) {
    EXPECT_TRUE(one["limit"].is_null());
    EXPECT_TRUE(one["ratio"].is_null());
    EXPECT_EQ(one["params"]["skipped"], "--ps-lite DIR is not given");
    EXPECT_EQ(one["params"].value("passes", false), false);
  }
}

TEST(FiguresTest, GoalsOfRates) {
  const auto goal = [](size_t batch, size_t outstanding, Op op, Kind kind) {
    return GoalOf(Metric::kRate, Requests(batch, outstanding), op, kind, "ps-lite flat");
  };
  EXPECT_EQ(goal(10'000, 1, Op::kPush, Kind::kRanged), 1.0);
  EXPECT_EQ(goal(1'000, 1, Op::kPush, Kind::kSparse), 0.8);
  EXPECT_EQ(goal(10'000, 1, Op::kPull, Kind::kSparse), 0.65);
  EXPECT_EQ(goal(1'000, 8, Op::kPull, Kind::kRanged), 1.0);
  EXPECT_EQ(goal(1'000, 8, Op::kPush, Kind::kRanged), 0.8);
  EXPECT_EQ(goal(1'000, 8, Op::kPull, Kind::kSparse), 0.8);
  EXPECT_EQ(goal(1'000, 8, Op::kPush, Kind::kSparse), 0.65);
  EXPECT_EQ(goal(10'000, 8, Op::kPush, Kind::kNearSparse), 1.0);
  EXPECT_EQ(goal(1'000, 1, Op::kPull, Kind::kNearRanged), 1.0);
  EXPECT_EQ(GoalOf(Metric::kRate, Requests(10, 1), Op::kPush, Kind::kRanged, "raw TCP"), std::nullopt);
  EXPECT_EQ(GoalOf(Metric::kMedian, Requests(1, 1), Op::kPush, Kind::kRanged, "bare gRPC ping-pong"), 1.3);
}

TEST(PlanTest, BatchesAreSortedAndDistinctAndTheSameEachTime) {
  const std::vector<uint64_t> keys = DrawBatches(100, 90, 7);
  ASSERT_EQ(keys.size(), 7u * 90);
  for (size_t b = 0; b < 7; ++b) {
    for (size_t i = 0; i < 90; ++i) {
      const uint64_t key = keys[b * 90 + i];
      EXPECT_LT(key, 100u);
      EXPECT_TRUE(i == 0 || keys[b * 90 + i - 1] < key);
    }
  }
  EXPECT_EQ(keys, DrawBatches(100, 90, 7));
}

TEST(PlanTest, PushesAreCountedAsRequestsAreMade) {
  Work work{.batch = 2, .keys = {0, 1, 1, 3, 2, 3}, .in_file = {}};
  std::vector<uint32_t> counted(4);
  CountPushes(work, 8, counted);
  std::vector<uint32_t> expected(4);
  for (uint64_t i = 0; i < 8; ++i) {
    for (size_t k = 0; k < 2; ++k) ++expected[work.keys_of(i)[k]];
  }
  EXPECT_EQ(counted, expected);
}

TEST(PlanTest, EveryRowOfTheTableIsInTheFullPlan) {
  const Plan plan = MakePlan({});
  EXPECT_GE(plan.rounds, 5);
  std::vector<std::string> found;
  for (const Stage& stage : plan.stages) {
    for (const Work& work : stage.works) {
      found.push_back(
          absl::StrCat(stage.data.name, ", ", stage.data.dense ? 1 : work.batch, ", ", work.outstanding));
    }
  }
  for (const char* one : {"dense 4 MB, 1, 1", "dense 4 MB, 1, 8", "dense 64 MB, 1, 1",
                          "rows of 1 value, 1, 1", "rows of 1 value, 1000, 1", "rows of 16 values, 1000, 8",
                          "rows of 16 values, 10000, 1", "rows of 64 values, 10000, 8"}) {
    EXPECT_THAT(found, testing::Contains(one));
  }
}

TEST(MetersTest, Quantiles) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.99), 3);
}

TEST(MetersTest, ThisProcessHasMemoryAndUsesCpuTime) {
  EXPECT_GT(ResidentBytes(getpid()), uint64_t{1} << 20);
  EXPECT_GT(ProcessCpuSeconds(getpid()), 0);
  EXPECT_EQ(ResidentBytes(0), 0u);
  EXPECT_EQ(ProcessCpuSeconds(0), 0);
}

}  // namespace
}  // namespace paceline::bench::peers
