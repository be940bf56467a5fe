// Reductions of whole clusters, beside what is pulled and reduced here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"
#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct ReduceTest : ClusterFixture {
  void Start(int shards, int replicas = 0) {
    StartCluster({.shards = shards, .replicas = replicas, .ring_bits = 3}, {.job = "reduce"});
  }
  static double Value(Table& table, Reduction reduction, const ReduceOptions& options = {}) {
    const absl::StatusOr<Reduced> reduced = table.Reduce(reduction, options);
    EXPECT_THAT(reduced, IsOk());
    return reduced.ok() ? reduced->value : std::numeric_limits<double>::quiet_NaN();
  }
};

TEST_F(ReduceTest, EveryReductionEqualsThatOfThePulledRows) {
  Start(3);
  Table table = OpenOrCreate("t", Sparse{.dim = 3, .rule = Assign{}});
  world::SplitMix64 random(1);
  std::vector<uint64_t> keys;
  std::vector<float> values;
  for (uint64_t key = 0; key < 50'000; ++key) {
    keys.push_back(key * 7);
    for (int c = 0; c < 3; ++c) values.push_back(static_cast<float>(world::Uniform(random, 2'001)) / 8 - 125);
  }
  ASSERT_THAT(table.Push(keys, values), IsOk());
  double sum = 0;
  double l1 = 0;
  double squares = 0;
  uint64_t non_zeros = 0;
  for (const float value : values) {  // eighths: exact in doubles
    sum += value;
    l1 += std::fabs(value);
    squares += double{value} * double{value};
    non_zeros += value != 0 ? 1 : 0;
  }
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  EXPECT_EQ(Value(table, Reduction::kSum), sum);
  EXPECT_EQ(Value(table, Reduction::kL1Norm), l1);
  EXPECT_EQ(Value(table, Reduction::kL2Norm), std::sqrt(squares));
  EXPECT_EQ(Value(table, Reduction::kMax), *max);
  EXPECT_EQ(Value(table, Reduction::kMin), *min);
  EXPECT_EQ(Value(table, Reduction::kMaxNorm), std::max(*max, -*min));
  EXPECT_EQ(Value(table, Reduction::kRows), 50'000);
  EXPECT_EQ(Value(table, Reduction::kNonZeros), static_cast<double>(non_zeros));
  EXPECT_EQ(*table.Reduce(Reduction::kSum), (Reduced{.value = sum, .rows = 50'000, .values = 150'000}));
  EXPECT_EQ(Value(table, Reduction::kRows, {.first = 7, .count = 14}), 2) << "keys 7 and 14";
  const auto column = table.Reduce(Reduction::kSum, {.first = 70, .count = 1, .column = 1});
  ASSERT_THAT(column, IsOk());
  EXPECT_EQ(*column, (Reduced{.value = values[31], .rows = 1, .values = 1}));
}

TEST_F(ReduceTest, TopKHasTheKeys) {
  Start(2);
  Table table = OpenOrCreate("t", Sparse{.dim = 2});
  ASSERT_THAT(table.Push({5, 9, 1000}, {1, -8, 4, 4, 0.5f, 3}), IsOk());
  EXPECT_THAT(*table.TopK(3), ElementsAre(TopValue{9, 0, 4}, TopValue{9, 1, 4}, TopValue{1000, 1, 3}));
  EXPECT_THAT(*table.TopK(2, TopBy::kMagnitude), ElementsAre(TopValue{5, 1, -8}, TopValue{9, 0, 4}));
  EXPECT_THAT(*table.TopK(2, TopBy::kValue, {.column = 1}),
              ElementsAre(TopValue{9, 1, 4}, TopValue{1000, 1, 3}));
  EXPECT_THAT(*table.TopK(1000), SizeIs(6)) << "as many as there are";
  EXPECT_THAT(table.TopKAsync(1).Get(), IsOk());
}

TEST_F(ReduceTest, ARangedTableHasAllItsRows) {
  Start(2);
  Table table = OpenOrCreate("t", Ranged{.rows = 30'000, .dim = 2, .init = Constant{0.5f}});
  EXPECT_EQ(*table.Reduce(Reduction::kSum), (Reduced{.value = 30'000, .rows = 30'000, .values = 60'000}));
  ASSERT_THAT(table.PushRange(29'998, {1, 2, 3, 4}), IsOk());
  EXPECT_EQ(Value(table, Reduction::kSum), 30'010);
  EXPECT_EQ(Value(table, Reduction::kSum, {.first = 29'998}), 12);
  EXPECT_EQ(Value(table, Reduction::kMax, {.first = 0, .count = 29'999}), 2.5);
  EXPECT_THAT(*table.TopK(1), ElementsAre(TopValue{29'999, 1, 4.5f}));
}

TEST_F(ReduceTest, NothingAtAll) {
  Start(1);
  Table table = OpenOrCreate("t", Sparse{.dim = 2});
  EXPECT_EQ(*table.Reduce(Reduction::kSum), Reduced());
  EXPECT_EQ(*table.Reduce(Reduction::kRows), Reduced());
  EXPECT_THAT(*table.TopK(5), IsEmpty());
  EXPECT_THAT(table.Reduce(Reduction::kMax),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no rows in the range")));
}

TEST_F(ReduceTest, WhatIsWrongIsNamed) {
  Start(1);
  Table sparse = OpenOrCreate("s", Sparse{.dim = 2});
  Table ranged = OpenOrCreate("r", Ranged{.rows = 100});
  Table bounded = OpenOrCreate("b", Sparse{.dim = 1, .consistency = Vap{.v = 1}});
  EXPECT_THAT(bounded.Reduce(Reduction::kSum),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("pull its rows")));
  EXPECT_THAT(sparse.TopK(0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("k: 0; expected 1 to 1024")));
  EXPECT_THAT(sparse.TopK(1025), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("k: 1025")));
  EXPECT_THAT(sparse.Reduce(Reduction::kSum, {.column = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column: 2; rows have 2 values")));
  EXPECT_THAT(sparse.Reduce(Reduction::kSum, {.count = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("count: 0")));
  EXPECT_THAT(sparse.Reduce(static_cast<Reduction>(99)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reduction: 99 is not known")));
  EXPECT_THAT(sparse.Reduce(Reduction::kSum, {.first = UINT64_MAX, .count = 2}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("go beyond 2^64 - 1")));
  EXPECT_THAT(ranged.Reduce(Reduction::kSum, {.first = 100}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("the table has keys 0 to 99")));
  EXPECT_THAT(ranged.Reduce(Reduction::kSum, {.first = 99, .count = 2}),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(ReduceTest, SeesTheBoundAndTheReadersOwnPushes) {
  Start(2);
  auto worker = cluster_->Connect({.job = "reduce", .workers = 1});
  ASSERT_THAT(worker, IsOk());
  auto table = (*worker)->OpenOrCreate("t", Sparse{.consistency = Ssp{.staleness = 0}});
  ASSERT_THAT(table, IsOk());
  double expected = 0;
  for (uint64_t clock = 0; clock < 20; ++clock) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 100; ++i) keys.push_back(clock * 50 + i);
    (void)table->PushAsync(keys, std::vector<float>(keys.size(), 1));
    expected += 100;
    EXPECT_EQ(Value(*table, Reduction::kSum), expected) << "its own pushes, committed or not";
    ASSERT_THAT((*worker)->Tick(), IsOk());
  }
  // A reader waits for the min clock that it names, and no longer than it wants.
  Table read = *client_->Open("t");
  EXPECT_EQ(Value(read, Reduction::kSum, {.min_clock = 20}), expected);
  EXPECT_THAT(read.Reduce(Reduction::kSum, {.min_clock = 21, .timeout = absl::Milliseconds(300)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT((*worker)->Finish(), IsOk());
}

// A sum of values of all magnitudes, in which any rounding on the way would show.
TEST_F(ReduceTest, TheSameRowsGiveTheSameBitsAtAnotherMember) {
  Start(3, /*replicas=*/1);
  Table table = OpenOrCreate("t", Sparse{.dim = 4, .rule = Assign{}});
  world::SplitMix64 random(2);
  std::vector<uint64_t> keys;
  std::vector<float> values;
  for (int i = 0; i < 20'000; ++i) {
    keys.push_back(random.Next());
    for (int c = 0; c < 4; ++c) {
      values.push_back(static_cast<float>(
          std::ldexp(world::UnitInterval(random) - 0.5, static_cast<int>(world::Uniform(random, 120)) - 60)));
    }
  }
  ASSERT_THAT(table.Push(keys, values), IsOk());
  std::map<Reduction, uint64_t> before;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kL1Norm, Reduction::kL2Norm}) {
    before[reduction] = std::bit_cast<uint64_t>(Value(table, reduction));
  }
  cluster_->StopShard(0);
  for (const auto& [reduction, bits] : before) {
    EXPECT_EQ(std::bit_cast<uint64_t>(Value(table, reduction)), bits) << static_cast<int>(reduction);
  }
}

// Reductions go on, and are right, while others push and a shard stops.
TEST_F(ReduceTest, WhileOthersPushAndAShardStops) {
  Start(3, /*replicas=*/1);
  Table table = OpenOrCreate("t", Ranged{.rows = 2'000'000, .dim = 1});
  auto pusher = cluster_->Connect({.job = "reduce"});
  ASSERT_THAT(pusher, IsOk());
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> sent = 0;
  std::atomic<uint64_t> committed = 0;
  std::thread pushes([&] {
    Table own = *(*pusher)->Open("t", Asp{});
    world::SplitMix64 other(3);
    while (!stop) {
      std::vector<uint64_t> keys;
      for (int i = 0; i < 500; ++i) keys.push_back(world::Uniform(other, 2'000'000));
      sent += keys.size();
      if (!own.Push(keys, std::vector<float>(keys.size(), 1)).ok()) return;
      committed += keys.size();
    }
  });
  for (int i = 0; i < 12; ++i) {
    if (i == 4) cluster_->StopShard(1);
    const auto least = static_cast<double>(committed);
    const absl::StatusOr<Reduced> reduced = table.Reduce(Reduction::kSum);
    const auto most = static_cast<double>(sent);
    ASSERT_THAT(reduced, IsOk());
    EXPECT_EQ(reduced->rows, 2'000'000u) << "each row once";
    EXPECT_GE(reduced->value, least);
    EXPECT_LE(reduced->value, most);
  }
  stop = true;
  pushes.join();
  EXPECT_EQ(Value(table, Reduction::kSum), static_cast<double>(committed));
}

}  // namespace
}  // namespace paceline
