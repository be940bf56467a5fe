// Pushers and readers under a value bound: over real gRPC, with real threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
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

constexpr uint64_t kKeys = 20;
constexpr double kBound = 1.5;

std::vector<uint64_t> Keys() {
  std::vector<uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

class ValueBound : public ClusterFixture {
 protected:
  void Start(int shards, int replicas) { StartCluster({.shards = shards, .replicas = replicas}); }
  std::unique_ptr<Client> Connect() { return ClusterFixture::Connect({.job = "bound"}); }
  static Table Open(Client& client) {
    auto table = client.OpenOrCreate("sums", Sparse{.consistency = Vap{.v = kBound}});
    EXPECT_THAT(table, IsOk());
    return *std::move(table);
  }
};

// Two threads of one client, and a client that reads all the time.
TEST_F(ValueBound, PushesWaitForReadersAndAllOfThemCount) {
  Start(2, 1);
  constexpr int kPushes = 100;
  const auto pushing = Connect();
  const auto reading = Connect();
  Table table = Open(*pushing);
  std::atomic<bool> over = false;
  std::thread reader([&] {
    Table own = Open(*reading);
    float newest = 0;
    while (!over) {
      const auto values = own.Pull(Keys());
      ASSERT_THAT(values, IsOk());
      EXPECT_GE((*values)[0], newest) << "what it was handed does not become older";
      newest = (*values)[0];
    }
  });
  std::vector<std::thread> pushers;
  for (int t = 0; t < 2; ++t) {
    pushers.emplace_back([&] {
      const std::vector<float> ones(kKeys, 1.0f);
      for (int i = 0; i < kPushes; ++i) EXPECT_THAT(table.Push(Keys(), ones), IsOk());
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  over = true;
  reader.join();
  const auto values = table.Pull(Keys());
  ASSERT_THAT(values, IsOk());
  EXPECT_THAT(*values, Each(2.0f * kPushes));
  const Stats stats = pushing->stats();
  EXPECT_GT(stats.wait.value_bound, 0);
  EXPECT_GT(stats.time.blocked.value_bound, 0);
  EXPECT_EQ(stats.wait.back_pressure, 0);
}

TEST_F(ValueBound, APushThatMayNotWaitIsRefused) {
  Start(1, 0);
  const auto client = Connect();
  Table table = Open(*client);
  // A callback's thread would confirm for this client, which reads too: it must not wait there.
  absl::Status refused;
  const auto here = std::this_thread::get_id();
  for (std::thread::id by = here; by == here;) {
    std::promise<std::thread::id> called;
    table.PullAsync({1}).OnReady([&](const auto&) {
      // Where the rows are there already this thread calls it, and may wait.
      for (int i = 0; i < 10 && refused.ok() && std::this_thread::get_id() != here; ++i) {
        const Future<void> pushed = table.PushAsync({1}, {2.0f});
        if (pushed.ready()) refused = pushed.Get();
      }
      called.set_value(std::this_thread::get_id());
    });
    by = called.get_future().get();
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("value bound")));
  EXPECT_THAT(table.PushAsync({1}, {1.0f}, {.after = table.PushAsync({2}, {1.0f})}).Get(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("after")));
}

TEST_F(ValueBound, AnAggregatedTableIsRefused) {
  Start(1, 0);
  const auto client = cluster_->Connect({.job = "bound", .workers = 1});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(
      (*client)->OpenOrCreate("folded", Sparse{.consistency = Vap{.v = 1}, .aggregated = true}).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("aggregated")));
}

}  // namespace
}  // namespace paceline
