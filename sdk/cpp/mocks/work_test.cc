// Work queues as users see them: workers that share the work, and come and go in the middle of it.
#include "paceline/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "paceline/mocks/in_process_cluster.h"

namespace paceline {
namespace {

using mocks::InProcessCluster;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint64_t kExamples = 60;
constexpr uint64_t kPasses = 2;
const WorkOptions kWork{.examples = kExamples, .per_item = 4, .passes = kPasses};

// Adds 1 for each example to the row of its pass and number, and ticks after each; in an item that has `stop`
// set before it, stops in the middle without a word.
absl::Status Train(Client& client, WorkQueue work, const std::atomic<bool>& stop) {
  absl::StatusOr<Table> counts =
      client.OpenOrCreate("counts", Sparse{.dim = 1, .rule = Add{}, .consistency = Ssp{.staleness = 1}});
  if (!counts.ok()) return counts.status();
  while (true) {
    const absl::StatusOr<std::optional<WorkItem>> item = work.Next();
    if (!item.ok()) return item.status();
    if (!item->has_value()) return client.Finish();
    for (uint64_t example = (*item)->begin; example < (*item)->end; ++example) {
      if (stop) return absl::OkStatus();
      const uint64_t key = (*item)->pass * kExamples + example;
      if (absl::Status s = counts->Pull({key}).status(); !s.ok()) return s;
      counts->PushAsync({key}, {1.0f}).OnReady([](const absl::Status&) {});
      if (absl::Status s = work.Mark(**item, example + 1); !s.ok()) return s;
      if (absl::Status s = client.Tick(); !s.ok()) return s;
    }
    if (absl::Status s = work.Done(**item); !s.ok()) return s;
  }
}

std::vector<float> Counts(const InProcessCluster& cluster) {
  auto reader = cluster.Connect({.job = "ctr"});
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<uint64_t> keys(kExamples * kPasses);
  std::iota(keys.begin(), keys.end(), 0);
  return (*reader)->Open("counts", Asp{})->Pull(keys).value();
}

TEST(Work, WorkersShareItAndEndTogether) {
  auto cluster = InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::atomic<bool> never = false;
  std::vector<absl::Status> results(3);
  std::vector<std::thread> workers;
  for (size_t w = 0; w < results.size(); ++w) {
    workers.emplace_back([&, w] {
      auto client = (*cluster)->Connect({.job = "ctr", .workers = 3});
      if (!client.ok()) return void(results[w] = client.status());
      auto work = (*client)->OpenWork("train", kWork);
      results[w] = work.ok() ? Train(**client, *work, never) : work.status();
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(Counts(**cluster), Each(1.0f));
}

TEST(Work, OthersDoWhatAnEvictedWorkerHeld) {
  auto cluster = InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::atomic<bool> stop = false;
  auto first = (*cluster)->Connect({.job = "ctr", .workers = 1});
  ASSERT_TRUE(first.ok()) << first.status();
  auto held = (*first)->OpenWork("train", kWork);
  ASSERT_TRUE(held.ok()) << held.status();
  const auto begun = held->Next();
  ASSERT_TRUE(begun.ok() && begun->has_value()) << begun.status();
  ASSERT_TRUE((*cluster)->Evict(**first).ok());
  auto second = (*cluster)->Connect({.job = "ctr", .workers = 1});
  ASSERT_TRUE(second.ok()) << second.status();
  auto work = (*second)->OpenWork("train", kWork);
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status trained = Train(**second, *work, stop);
  EXPECT_TRUE(trained.ok()) << trained;
  EXPECT_THAT(Counts(**cluster), Each(1.0f)) << "the first one had trained nothing";
}

TEST(Work, WhoLeavesInTheMiddleLeavesTheRestToOthers) {
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::atomic<bool> never = false;
  {
    auto client = (*cluster)->Connect({.job = "ctr", .workers = 1});
    ASSERT_TRUE(client.ok()) << client.status();
    auto counts = (*client)->OpenOrCreate(
        "counts", Sparse{.dim = 1, .rule = Add{}, .consistency = Ssp{.staleness = 1}});
    ASSERT_TRUE(counts.ok()) << counts.status();
    auto work = (*client)->OpenWork("train", kWork);
    ASSERT_TRUE(work.ok()) << work.status();
    const auto item = work->Next();
    ASSERT_TRUE(item.ok() && item->has_value()) << item.status();
    counts->PushAsync({(*item)->begin}, {1.0f}).OnReady([](const absl::Status&) {});
    ASSERT_TRUE(work->Mark(**item, (*item)->begin + 1).ok());
    ASSERT_TRUE((*client)->Tick().ok());
    const absl::Status left = (*client)->Finish();
    ASSERT_TRUE(left.ok()) << left;
  }
  auto client = (*cluster)->Connect({.job = "ctr", .workers = 1});
  ASSERT_TRUE(client.ok()) << client.status();
  auto work = (*client)->OpenWork("train", kWork);
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status trained = Train(**client, *work, never);
  EXPECT_TRUE(trained.ok()) << trained;
  EXPECT_THAT(Counts(**cluster), Each(1.0f));
}

TEST(Work, ThreadsOfOneWorkerHaveItemsOfTheirOwn) {
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "ctr"});
  ASSERT_TRUE(client.ok()) << client.status();
  auto counts = (*client)->OpenOrCreate("counts", Sparse{.dim = 1, .rule = Add{}, .consistency = Asp{}});
  ASSERT_TRUE(counts.ok()) << counts.status();
  auto work = (*client)->OpenWork("train", kWork);
  ASSERT_TRUE(work.ok()) << work.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (true) {
        const auto item = work->Next();
        ASSERT_TRUE(item.ok()) << item.status();
        if (!item->has_value()) return;
        for (uint64_t e = (*item)->begin; e < (*item)->end; ++e)
          ASSERT_TRUE(counts->Push({(*item)->pass * kExamples + e}, {1.0f}).ok());
        ASSERT_TRUE(work->Done(**item).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Counts(**cluster), Each(1.0f));
}

TEST(Work, WrongOptionsAreRefusedByName) {
  auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto client = (*cluster)->Connect({.job = "ctr"});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_THAT(std::string((*client)->OpenWork("train", {.per_item = 1}).status().message()),
              AllOf(HasSubstr("work queue 'train'"), HasSubstr("examples: 0")));
  ASSERT_TRUE((*client)->OpenWork("train", kWork).ok());
  const auto other = (*client)->OpenWork("train", {.examples = 1, .per_item = 1});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists) << other.status();
}

}  // namespace
}  // namespace paceline
