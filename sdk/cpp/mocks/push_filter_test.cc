// Pushes through filters: over real gRPC, with real threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "paceline/mocks/in_process_cluster.h"

namespace paceline {
namespace {

using ::paceline::mocks::InProcessCluster;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PushFilters : public ::testing::Test {
 protected:
  PushFilters() : cluster_(InProcessCluster::Start({.shards = 2, .replicas = 1}).value()) {}

  std::unique_ptr<Client> Connect() {
    auto client = cluster_->Connect({.job = "filtered"});
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }
  static Table Open(Client& client, const PushFilter& filter) {
    auto table = client.OpenOrCreate("sums", Sparse{.push_filter = filter});
    EXPECT_THAT(table, IsOk());
    return *std::move(table);
  }

  std::unique_ptr<InProcessCluster> cluster_;
};

TEST_F(PushFilters, FlushSendsWhatIsHeldBack) {
  const auto pushing = Connect(), reading = Connect();
  Table filtered = Open(*pushing, {.significant = 10});
  Table plain = Open(*reading, {});
  ASSERT_THAT(filtered.Push({1, 2}, {20, 3}), IsOk());
  EXPECT_THAT(plain.Pull({1, 2}).value(), ElementsAre(20, 0));
  EXPECT_THAT(filtered.Pull({1, 2}).value(), ElementsAre(20, 0));
  EXPECT_EQ(pushing->stats().push_filter.rows_held, 1u);
  ASSERT_THAT(pushing->Flush(), IsOk());
  EXPECT_THAT(plain.Pull({1, 2}).value(), ElementsAre(20, 3));
  EXPECT_EQ(pushing->stats().push_filter.rows_sent, 2u);
}

TEST_F(PushFilters, SoDoesTheEndOfAClient) {
  const auto reading = Connect();
  {
    const auto pushing = Connect();
    ASSERT_THAT(Open(*pushing, {.significant = 10}).Push({1}, {3}), IsOk());
  }
  EXPECT_THAT(Open(*reading, {}).Pull({1}).value(), ElementsAre(3));
}

// Threads share one account of what is held back.
TEST_F(PushFilters, ThreadsLoseNothing) {
  constexpr int kThreads = 4, kPushes = 50;
  const auto pushing = Connect(), reading = Connect();
  Table filtered = Open(*pushing, {.skip = 0.7});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPushes; ++i) (void)filtered.PushAsync({1, 2, 3}, {1, 2, 3});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(pushing->Flush(), IsOk());
  EXPECT_THAT(Open(*reading, {}).Pull({1, 2, 3}).value(),
              ElementsAre(kThreads * kPushes, 2 * kThreads * kPushes, 3 * kThreads * kPushes));
  EXPECT_LT(pushing->stats().push_filter.rows_sent, pushing->stats().push_filter.rows_given);
}

TEST_F(PushFilters, WhatDoesNotSuitATableIsRefusedBeforeItIsMade) {
  const auto client = Connect();
  const PushFilter filter{.precision = PushPrecision::kInt8};
  EXPECT_THAT(client->OpenOrCreate("counts", Sparse{.push_filter = filter}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("table 'counts': push_filter: ")));
  EXPECT_THAT(client->Open("counts").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("counts")));
  ASSERT_THAT(client->OpenOrCreate("counts", Sparse{}), IsOk());
  EXPECT_THAT(client->Open("counts", Ssp{}, filter).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a count is not rounded")));
  EXPECT_THAT(client->Open("counts", Ssp{}, {.top_k = 0.5}), IsOk());
}

}  // namespace
}  // namespace paceline
