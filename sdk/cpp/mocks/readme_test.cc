// The example of README.md, word for word (docs_test compares them), and that it gains what README.md says.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "paceline/client.h"
#include "paceline/mocks/in_process_cluster.h"

namespace {

std::vector<float> Gradient(const std::vector<uint64_t>& keys, const std::vector<float>& values) {
  std::vector<float> gradient;
  for (size_t i = 0; i < keys.size(); ++i) gradient.push_back(values[i] - 1);
  return gradient;
}

// clang-format off
absl::StatusOr<paceline::Stats> Train(const std::vector<std::vector<uint64_t>>& batches) {
  auto client = paceline::Client::Connect({.job = "ctr", .workers = 1});  // at PACELINE_COORDINATOR
  if (!client.ok()) return client.status();
  // Under Adagrad a row that was pushed to comes from this worker's memory only if it may lack its own pushes.
  const paceline::Ssp two_clocks{.staleness = 2, .read_my_writes = false};
  auto weights = (*client)->OpenOrCreate(
      "weights", paceline::Sparse{.rule = paceline::Adagrad{.lr = 0.1f}, .consistency = two_clocks});
  if (!weights.ok()) return weights.status();
  for (const std::vector<uint64_t>& keys : batches) {
    auto values = weights->Pull(keys);  // waits only for a worker more than two clocks behind
    if (!values.ok()) return values.status();
    (void)weights->PushAsync(keys, Gradient(keys, *values));                    // Finish reports its errors
    if (absl::Status status = (*client)->Tick(); !status.ok()) return status;  // the end of this clock
  }
  if (absl::Status status = (*client)->Finish(); !status.ok()) return status;
  return (*client)->stats();  // rows_from_cache, rows_pulled, waits by cause …
}
// clang-format on

TEST(ReadmeTest, MostRowsThatAreReadAgainComeFromTheWorkersMemory) {
  const auto cluster = paceline::mocks::InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ(setenv("PACELINE_COORDINATOR", (*cluster)->coordinator().c_str(), 1), 0);
  std::vector<std::vector<uint64_t>> batches;
  for (uint64_t clock = 0; clock < 30; ++clock) {
    std::vector<uint64_t>& keys = batches.emplace_back();
    for (uint64_t hot = 0; hot < 50; ++hot) keys.push_back(hot);
    for (uint64_t cold = 0; cold < 50; ++cold) keys.push_back(1000 + 50 * clock + cold);
  }
  const absl::StatusOr<paceline::Stats> stats = Train(batches);
  ASSERT_TRUE(stats.ok()) << stats.status();
  // Half of what is read was read before, and is read again from the shards every second or third clock.
  EXPECT_EQ(stats->rows_pulled + stats->rows_from_cache, 3000u);
  EXPECT_GE(stats->rows_from_cache, 500u);
}

}  // namespace
