// The notices that a program gets while its operations wait: soon, and by name.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "paceline/mocks/in_process_cluster.h"

namespace paceline::mocks {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The notices of one client.
class Notices {
 public:
  auto Listener() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.push_back(text);
      come_.notify_all();
    };
  }
  // The first one that has all these words; all that was said if none comes.
  std::string Await(const std::vector<std::string>& words) {
    std::unique_lock lock(mutex_);
    std::string found;
    come_.wait_for(lock, std::chrono::seconds(60), [&] {
      for (const std::string& text : texts_) {
        bool all = true;
        for (const std::string& word : words) all = all && absl::StrContains(text, word);
        if (all) found = text;
      }
      return !found.empty();
    });
    EXPECT_NE(found, "") << absl::StrJoin(texts_, "\n");
    return found;
  }
  std::vector<std::string> texts() {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<std::string> texts_;
};

TEST(NoticesTest, TheCreatorOfAJobIsNotified) {
  const auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Notices first;
  Notices second;
  const auto creates = (*cluster)->Connect({.job = "ctr", .on_notice = first.Listener()});
  ASSERT_TRUE(creates.ok()) << creates.status();
  const auto follows = (*cluster)->Connect({.job = "ctr", .on_notice = second.Listener()});
  ASSERT_TRUE(follows.ok()) << follows.status();
  first.Await({"job 'ctr'", "did not exist and was created"});
  EXPECT_THAT(second.texts(), IsEmpty());
}

TEST(NoticesTest, APullThatWaitsForASlowWorkerNamesIt) {
  const auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Notices notices;
  const auto slow = (*cluster)->Connect({.job = "ctr", .client_name = "the slow one", .workers = 1});
  const auto fast = (*cluster)->Connect({.job = "ctr", .workers = 1, .on_notice = notices.Listener()});
  ASSERT_TRUE(slow.ok() && fast.ok()) << slow.status() << fast.status();
  auto table = (*fast)->OpenOrCreate("t", Sparse{.consistency = Ssp{.staleness = 0}});
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE((*fast)->Tick().ok());
  Future<std::vector<float>> pulled = table->PullAsync({1});
  notices.Await({"pull of table 't' has waited", "clock"});
  while ((*slow)->clock() < (*fast)->clock()) ASSERT_TRUE((*slow)->Tick().ok());
  EXPECT_TRUE(std::move(pulled).Get().ok());
}

TEST(NoticesTest, APushToAnAggregatedTableSaysThatAllHaveToEndItsClock) {
  const auto cluster = InProcessCluster::Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Notices notices;
  const auto fast = (*cluster)->Connect({.job = "ctr", .workers = 1, .on_notice = notices.Listener()});
  const auto slow = (*cluster)->Connect({.job = "ctr", .workers = 1});
  ASSERT_TRUE(slow.ok() && fast.ok()) << slow.status() << fast.status();
  auto table = (*fast)->OpenOrCreate("t", Sparse{.consistency = Bsp{}});
  ASSERT_TRUE(table.ok()) << table.status();
  while ((*fast)->clock() < (*slow)->clock())
    ASSERT_TRUE((*fast)->Tick().ok());  // who joins later starts later
  ASSERT_TRUE(table->Pull({1}).ok());
  Future<void> pushed = table->PushAsync({1}, std::vector<float>{1});
  ASSERT_TRUE((*fast)->Tick().ok());
  notices.Await({"push to table 't' has waited", "connected; of an aggregated table"});
  while ((*slow)->clock() < (*fast)->clock()) ASSERT_TRUE((*slow)->Tick().ok());
  EXPECT_TRUE(std::move(pushed).Get().ok());
}

TEST(NoticesTest, AShardThatIsGoneIsNamed) {
  const auto cluster = InProcessCluster::Start({.shards = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Notices notices;
  const auto client = (*cluster)->Connect({.job = "ctr", .on_notice = notices.Listener()});
  ASSERT_TRUE(client.ok()) << client.status();
  auto table = (*client)->OpenOrCreate("t", Ranged{.rows = 100'000});
  ASSERT_TRUE(table.ok()) << table.status();
  (*cluster)->StopShard(1);
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 100'000; key += 100) keys.push_back(key);
  (void)table->PushAsync(keys, std::vector<float>(keys.size(), 1.0f));
  const std::string text = notices.Await({"push to table 't' has waited", "shard-1 at 127.0.0.1:"});
  EXPECT_THAT(text, HasSubstr("job 'ctr'"));
}

TEST(NoticesTest, ACoordinatorThatIsNotThereIsNamed) {
  std::string address;
  {
    const auto cluster = InProcessCluster::Start();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    address = (*cluster)->coordinator();
  }
  Notices notices;
  const auto client = Client::Connect(
      {.coordinator = address, .job = "ctr", .timeout = absl::Seconds(6), .on_notice = notices.Listener()});
  EXPECT_FALSE(client.ok());
  notices.Await({"open session: coordinator at ", address, "has waited", "for its answer: "});
}

}  // namespace
}  // namespace paceline::mocks
