// Rows that shards tell of: over real gRPC, with two workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;

constexpr uint64_t kStaleness = 4;
constexpr uint64_t kClocks = 150;
constexpr uint32_t kWorkers = 2;

struct Model {
  bool aggregated;
  uint64_t budget_bytes;
};

class Told : public ClusterFixture, public ::testing::WithParamInterface<Model> {
 protected:
  // Each worker adds 1 to each row in each clock, and reads all of them before.
  void Work(uint32_t rank) {
    const std::unique_ptr<Client> client = Connect({.job = "told", .workers = kWorkers, .rank = rank});
    ASSERT_NE(client, nullptr);
    auto table = client->OpenOrCreate(
        "sums", Sparse{.consistency =
                           Essp{.staleness = kStaleness, .every = 1, .budget_bytes = GetParam().budget_bytes},
                       .aggregated = GetParam().aggregated});
    ASSERT_THAT(table, IsOk());
    std::vector<uint64_t> keys(50);
    std::iota(keys.begin(), keys.end(), 0);
    for (uint64_t clock = 0; clock < kClocks; ++clock) {
      const auto rows = table->Pull(keys);
      ASSERT_THAT(rows, IsOk());
      for (const float row : *rows) Check(clock, row);
      ASSERT_THAT(table->Push(keys, std::vector<float>(keys.size(), 1.0f)), IsOk());
      ASSERT_THAT(client->Tick(), IsOk());
    }
    EXPECT_THAT(client->Finish(), IsOk());
    refreshed_ += client->stats().rows_refreshed;
  }

  static void Check(uint64_t clock, float row) {
    const uint64_t least = clock - std::min(clock, kStaleness);
    const auto sum = static_cast<uint64_t>(row);
    if (GetParam().aggregated) {
      EXPECT_EQ(sum % kWorkers, 0u) << "whole clocks only";
      EXPECT_GE(sum, kWorkers * least);
      EXPECT_LE(sum, kWorkers * clock);
    } else {
      EXPECT_GE(sum, clock + least) << "its own, and all of clocks before the bound";
      EXPECT_LE(sum, 2 * clock + kStaleness + 1);
    }
  }

  std::atomic<uint64_t> refreshed_ = 0;
};

TEST_P(Told, RowsAreWithinTheBoundAndSentAgain) {
  StartCluster({.shards = 2});
  std::vector<std::thread> workers;
  for (uint32_t rank = 0; rank < kWorkers; ++rank) workers.emplace_back([this, rank] { Work(rank); });
  for (std::thread& worker : workers) worker.join();
  EXPECT_GT(refreshed_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Tables, Told,
                         ::testing::Values(Model{false, 0}, Model{false, 64}, Model{true, 0},
                                           Model{true, 64}),
                         [](const auto& instance) {
                           return std::string(instance.param.aggregated ? "Aggregated" : "OnArrival") +
                                  (instance.param.budget_bytes > 0 ? "WithinABudget" : "");
                         });

}  // namespace
}  // namespace paceline
