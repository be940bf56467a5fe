// Sketches beside exact counts.
#include "paceline/count_min.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"
#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CountMinTest : ClusterFixture {
  void Start(int shards, int replicas = 0) {
    StartCluster({.shards = shards, .replicas = replicas, .ring_bits = 3}, {.job = "sketch"});
  }
};

// Few keys often, many rarely.
uint64_t SomeKey(world::Random& random) {
  return static_cast<uint64_t>(std::exp(world::UnitInterval(random) * 11));
}

TEST(CountMinCells, AreFixedAndSpread) {
  const CountMinOptions options{.width = 1000, .depth = 4};
  std::vector<std::set<uint64_t>> used(options.depth);
  for (uint64_t key = 0; key < 5'000; ++key) {
    const std::vector<uint64_t> cells = CountMin::CellsOf(key, options);
    ASSERT_EQ(cells.size(), 4u);
    for (uint32_t row = 0; row < 4; ++row) {
      ASSERT_GE(cells[row], row * 1000u);
      ASSERT_LT(cells[row], (row + 1) * 1000u);
      used[row].insert(cells[row]);
    }
  }
  for (const auto& cells : used) EXPECT_GT(cells.size(), 980u) << "5 keys a cell: e^-5 of them are empty";
}

TEST(CountMinSize, FollowsFromTheErrorBound) {
  const CountMinOptions options = CountMinOptions::For(0.001, 0.01);
  EXPECT_EQ(options.width, 2719u);  // e / 0.001
  EXPECT_EQ(options.depth, 5u);     // ln 100
}

// Never too small; and too large by more than e/width of all counts for fewer than e^-depth of the keys.
TEST_F(CountMinTest, KeepsItsErrorBound) {
  Start(2);
  for (const CountMinOptions& options :
       {CountMinOptions{.width = 64, .depth = 1}, {.width = 200, .depth = 2}, {.width = 500, .depth = 4}}) {
    const std::string name = "s" + std::to_string(options.width);
    auto sketch = CountMin::Open(*client_, name, options);
    ASSERT_THAT(sketch, IsOk());
    world::SplitMix64 random(options.width);
    std::map<uint64_t, uint64_t> truth;
    double total = 0;
    for (int batch = 0; batch < 20; ++batch) {
      std::vector<uint64_t> keys;
      std::vector<uint64_t> counts;
      for (int i = 0; i < 1'000; ++i) {
        keys.push_back(SomeKey(random));
        counts.push_back(1 + world::Uniform(random, 5));
        truth[keys.back()] += counts.back();
        total += static_cast<double>(counts.back());
      }
      ASSERT_THAT(sketch->Add(keys, counts), IsOk());
    }
    EXPECT_THAT(sketch->Total(), IsOkAndHolds(total));
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 60'000; key += 7) keys.push_back(key);  // mostly keys that never came
    const auto estimates = sketch->Estimate(keys);
    ASSERT_THAT(estimates, IsOk());
    const double allowed = total * std::exp(1.0) / options.width;
    double beyond = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = truth.find(keys[i]);
      const double count = found == truth.end() ? 0 : static_cast<double>(found->second);
      ASSERT_GE((*estimates)[i], count) << "key " << keys[i];
      beyond += (*estimates)[i] > count + allowed ? 1 : 0;
    }
    EXPECT_LE(beyond / static_cast<double>(keys.size()), std::exp(-static_cast<double>(options.depth)));
  }
}

TEST_F(CountMinTest, CountsOnBeyondWhatAnF32Holds) {
  Start(1);
  auto sketch = CountMin::Open(*client_, "large", {.width = 8, .depth = 2});
  ASSERT_THAT(sketch, IsOk());
  const uint64_t much = uint64_t{1} << 24;
  ASSERT_THAT(sketch->Add({7}, {much}), IsOk());
  for (int i = 0; i < 1'000; ++i) (void)sketch->AddAsync({7});
  ASSERT_THAT(client_->Flush(), IsOk());
  EXPECT_THAT(sketch->Estimate({7}), IsOkAndHolds(ElementsAre(static_cast<double>(much) + 1'000)));

  auto at_once = CountMin::Open(*client_, "at_once", {.width = 8, .depth = 2});
  ASSERT_THAT(at_once, IsOk());
  std::vector<uint64_t> counts(1'001, 1);
  counts[0] = much;
  ASSERT_THAT(at_once->Add(std::vector<uint64_t>(counts.size(), 7), counts), IsOk());
  EXPECT_THAT(at_once->Estimate({7}), IsOkAndHolds(ElementsAre(static_cast<double>(much) + 1'000)));
}

// Each update once, though a shard stops amid them.
TEST_F(CountMinTest, LosesNothingWithAShard) {
  Start(3, /*replicas=*/1);
  auto sketch = CountMin::Open(*client_, "views", {.width = 1024, .depth = 3});
  ASSERT_THAT(sketch, IsOk());
  for (uint64_t i = 0; i < 300; ++i) {
    if (i == 100) cluster_->StopShard(2);
    (void)sketch->AddAsync({i % 10, 42});
  }
  ASSERT_THAT(client_->Flush(), IsOk());
  EXPECT_THAT(sketch->Estimate({0, 42, 1'000'000}), IsOkAndHolds(ElementsAre(30, 300, 0)));
  EXPECT_THAT(sketch->Total(), IsOkAndHolds(600));
}

TEST_F(CountMinTest, WhatIsWrongIsNamed) {
  Start(1);
  EXPECT_THAT(CountMin::Open(*client_, "s", {.width = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width 0")));
  EXPECT_THAT(CountMin::Open(*client_, "s", {.width = 1, .depth = 33}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("depth of 1 to 32")));
  EXPECT_THAT(CountMin::Open(*client_, "s", {.width = 1}, Bsp{}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found Bsp")));
  auto sketch = CountMin::Open(*client_, "s", {.width = 100, .depth = 4});
  ASSERT_THAT(sketch, IsOk());
  EXPECT_THAT(CountMin::Open(*client_, "s", {.width = 200, .depth = 2}),
              StatusIs(absl::StatusCode::kAlreadyExists))
      << "as many cells, in other rows";
  EXPECT_THAT(sketch->Add({1, 2}, {1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("counts: 1 for 2 keys")));
}

}  // namespace
}  // namespace paceline
