// A job on a cluster that keeps copies of its rows, and loses a shard: over real gRPC, with many threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint64_t kThreads = 4;
constexpr uint64_t kKeys = 500;

std::vector<uint64_t> Keys() {
  std::vector<uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

class Replicated : public ClusterFixture {
 protected:
  void Start(int shards, int replicas) {
    StartCluster({.shards = shards, .replicas = replicas}, {.job = "counts", .workers = 1});
  }
};

TEST_F(Replicated, CountsStayExactWhenAShardIsGone) {
  Start(3, 1);
  auto counts = client_->OpenOrCreate("counts", Sparse{.rule = Add{}, .consistency = Ssp{.staleness = 0}});
  ASSERT_THAT(counts, IsOk());
  const std::vector<uint64_t> keys = Keys();
  const std::vector<float> ones(kKeys, 1.0f);
  std::atomic<uint64_t> acknowledged = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!over) {
        EXPECT_THAT(counts->Push(keys, ones), IsOk());
        ++acknowledged;
      }
    });
  }
  const auto pushed = [&](uint64_t more) {
    const uint64_t goal = acknowledged + more;
    while (acknowledged < goal && !HasFailure()) std::this_thread::yield();
  };
  pushed(20);
  cluster_->StopShard(1);
  pushed(20);  // which takes the replicas of what it held
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(client_->Tick(), IsOk());
  const auto rows = counts->Pull(keys);
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(*rows, Each(static_cast<float>(acknowledged.load())));
}

TEST_F(Replicated, FoldsContinueAfterATakeover) {
  Start(2, 1);
  auto table = client_->OpenOrCreate("folded", Ranged{.rows = kKeys, .rule = Add{}, .consistency = Bsp{}});
  ASSERT_THAT(table, IsOk());
  for (int clock = 0; clock < 30; ++clock) {
    if (clock == 10) cluster_->StopShard(0);
    const auto rows = table->PullRange(0, kKeys);
    ASSERT_THAT(rows, IsOk());
    ASSERT_THAT(*rows, Each(static_cast<float>(clock))) << "exactly the clocks before";
    EXPECT_THAT(table->PushRange(0, std::vector<float>(kKeys, 1.0f)), IsOk());
    ASSERT_THAT(client_->Tick(), IsOk());
  }
  EXPECT_THAT(client_->Finish(), IsOk());
}

TEST_F(Replicated, TakesMoreShardsThanReplicas) {
  EXPECT_THAT(mocks::InProcessCluster::Start({.shards = 2, .replicas = 2}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("replicas: 2 with 2 shards")));
}

}  // namespace
}  // namespace paceline
