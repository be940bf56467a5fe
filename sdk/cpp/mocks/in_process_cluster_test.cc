// Written as a user of the SDK would: a small training loop, and tests that show what it does on a cluster.
#include "paceline/mocks/in_process_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

using paceline::Client;
using paceline::mocks::InProcessCluster;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

// -- The code under test: fits y = w · x + b by gradient descent, over any number of workers. --

struct Example {
  float x, y;
};

absl::Status Train(Client& client, const std::vector<Example>& examples, int clocks, float rate) {
  auto line = client.OpenOrCreate("line", paceline::Ranged{.rows = 2,
                                                           .rule = paceline::Sgd{.lr = rate},
                                                           .consistency = paceline::Ssp{.staleness = 1}});
  if (!line.ok()) return line.status();
  for (int clock = 0; clock < clocks; ++clock) {
    const absl::StatusOr<std::vector<float>> w = line->PullRange(0, 2);
    if (!w.ok()) return w.status();
    std::vector<float> gradient(2);
    for (const Example& example : examples) {
      const float error = (*w)[0] * example.x + (*w)[1] - example.y;
      gradient[0] += error * example.x / static_cast<float>(examples.size());
      gradient[1] += error / static_cast<float>(examples.size());
    }
    line->PushRangeAsync(0, gradient).OnReady([](const absl::Status&) {});  // Finish reports errors
    if (absl::Status ticked = client.Tick(); !ticked.ok()) return ticked;
  }
  return client.Finish();
}

std::vector<Example> OnALine(float w, float b, std::vector<float> xs) {
  std::vector<Example> examples;
  for (float x : xs) examples.push_back({x, w * x + b});
  return examples;
}

// -- Its tests. --

TEST(Trainer, TwoWorkersFindTheLine) {
  auto cluster = InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::vector<absl::Status> results(2);
  std::vector<std::thread> workers;
  for (int w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      auto client = (*cluster)->Connect({.job = "line", .workers = 2});
      results[w] =
          client.ok() ? Train(**client, OnALine(2, -1, {-1, 0.5f, 1, 1.5f}), 200, 0.1f) : client.status();
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_TRUE(results[1].ok()) << results[1];

  auto reader = (*cluster)->Connect({.job = "line"});
  ASSERT_TRUE(reader.ok()) << reader.status();
  auto line = (*reader)->Open("line");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->PullRange(0, 2).value(), ElementsAre(FloatNear(2, 0.01f), FloatNear(-1, 0.01f)));
}

TEST(Trainer, IsToldThatItWasEvicted) {
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "line", .workers = 1});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*cluster)->Evict(**client, "the machine is needed").ok());
  const absl::Status trained = Train(**client, OnALine(1, 1, {1, 2}), 1'000'000, 0.01f);
  EXPECT_EQ(trained.code(), absl::StatusCode::kAborted) << trained;
  EXPECT_THAT(std::string(trained.message()), AllOf(HasSubstr("is over"), HasSubstr("connect again")));
}

TEST(Trainer, NamesTheShardThatIsGone) {
  auto cluster = InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "line", .workers = 1, .cache_bytes_max = 0});
  ASSERT_TRUE(client.ok()) << client.status();
  auto counts = (*client)->OpenOrCreate("counts", paceline::Sparse{});
  ASSERT_TRUE(counts.ok()) << counts.status();
  std::vector<uint64_t> keys(64);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  ASSERT_TRUE(counts->Pull(keys).ok());
  (*cluster)->StopShard(1);
  const auto pulled = counts->Pull(keys, {.timeout = absl::Milliseconds(300)});
  EXPECT_EQ(pulled.status().code(), absl::StatusCode::kDeadlineExceeded) << pulled.status();
  EXPECT_THAT(std::string(pulled.status().message()), HasSubstr("shard-1"));
}

TEST(Arithmetic, IsThatOfTheRules) {
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "rules"});
  ASSERT_TRUE(client.ok()) << client.status();
  auto adagrad = (*client)->OpenOrCreate(
      "adagrad", paceline::Sparse{.dim = 2,
                                  .init = paceline::Constant{.value = 1},
                                  .rule = paceline::Adagrad{.lr = 0.5f, .epsilon = 0.25f}});
  ASSERT_TRUE(adagrad.ok()) << adagrad.status();
  float w[2] = {1, 1}, a[2] = {0, 0};
  for (const float g : {2.0f, -1.0f, 0.5f}) {
    ASSERT_TRUE(adagrad->Push({7}, {g, 3 * g}).ok());
    for (int d = 0; d < 2; ++d) {
      const float gradient = d == 0 ? g : 3 * g;
      a[d] += gradient * gradient;
      w[d] -= 0.5f * gradient / (std::sqrt(a[d]) + 0.25f);
    }
  }
  EXPECT_THAT(adagrad->Pull({7}).value(), ElementsAre(FloatNear(w[0], 1e-6f), FloatNear(w[1], 1e-6f)));
}

TEST(Cluster, SeveralRunSideBySide) {
  auto one = InProcessCluster::Start();
  auto two = InProcessCluster::Start();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE((*one)->coordinator(), (*two)->coordinator());
  auto client = (*one)->Connect({.job = "a"});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->OpenOrCreate("t", paceline::Sparse{}).ok());
  auto other = (*two)->Connect({.job = "a"});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->Open("t").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(InProcessCluster::Start({.shards = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Cluster, IsReachedWithoutTheProxy) {
  setenv("http_proxy", "http://127.0.0.1:1", /*overwrite=*/1);
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "a", .timeout = absl::Seconds(20)});
  ASSERT_TRUE(client.ok()) << client.status();
  auto table = (*client)->OpenOrCreate("t", paceline::Sparse{});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->Push({1}, {1.0f}).ok());
  unsetenv("http_proxy");
}

TEST(Cluster, ABudgetOfMemoryIsKept) {
  auto cluster = InProcessCluster::Start({.memory_budget_bytes = 1 << 16});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "big"});
  ASSERT_TRUE(client.ok()) << client.status();
  auto table = (*client)->OpenOrCreate("t", paceline::Sparse{.dim = 1024});
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<uint64_t> keys(64);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const absl::Status pushed =
      table->Push(keys, std::vector<float>(keys.size() * 1024, 1.0f), {.timeout = absl::Seconds(1)});
  EXPECT_EQ(pushed.code(), absl::StatusCode::kDeadlineExceeded) << pushed;
  EXPECT_THAT(std::string(pushed.message()), HasSubstr("budget"));
}

}  // namespace
