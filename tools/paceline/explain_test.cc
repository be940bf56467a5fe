#include "tools/paceline/explain.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "nlohmann/json.hpp"

namespace paceline::tool {
namespace {

using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A worker of 100 s: what it waits for, in seconds.
struct Waits {
  double staleness = 0;
  int for_rank = -1;
  double to_shard_0 = 0, to_shard_1 = 0;  // network
  double at_shard_0 = 0, at_shard_1 = 0;  // queue
};

constexpr double kSeconds = 100;

uint64_t Us(double seconds) {
  return static_cast<uint64_t>(seconds * 1e6);
}

struct ExplainTest : ::testing::Test {
  ExplainTest() {
    for (uint32_t i = 0; i < 2; ++i) {
      v1::ShardInfo& shard = *status.add_shards()->mutable_info();
      shard.set_shard(i);
      shard.set_name(i == 0 ? "shard-0" : "shard-1");
    }
    status.add_jobs()->set_name("ctr");
  }

  void Worker(const Waits& waits) {
    v1::JobStatus& job = *status.mutable_jobs(0);
    v1::SessionStatus& session = *job.add_sessions();
    session.set_session(static_cast<uint64_t>(job.sessions_size()) + 10);
    session.set_rank(static_cast<uint32_t>(job.sessions_size()) - 1);
    session.set_state("worker");
    v1::WorkerTime& time = *session.mutable_time();
    time.set_threads(1);
    time.set_all_us(Us(kSeconds));
    time.mutable_blocked()->set_staleness_us(Us(waits.staleness));
    time.mutable_blocked()->set_network_us(Us(waits.to_shard_0 + waits.to_shard_1));
    time.mutable_blocked()->set_queue_us(Us(waits.at_shard_0 + waits.at_shard_1));
    time.set_compute_us(time.all_us() - Us(waits.staleness) - time.blocked().network_us() -
                        time.blocked().queue_us());
    if (waits.for_rank >= 0) {
      auto& whom = *time.add_for_workers();
      whom.set_rank(static_cast<uint32_t>(waits.for_rank));
      whom.set_staleness_us(Us(waits.staleness));
    }
    if (waits.staleness > 0) {
      auto& table = *time.add_of_tables();
      table.set_name("weights");
      table.set_bound(1);
      table.set_staleness_us(Us(waits.staleness));
    }
    const std::array<std::pair<double, double>, 2> shards = {
        {{waits.to_shard_0, waits.at_shard_0}, {waits.to_shard_1, waits.at_shard_1}}};
    for (uint32_t i = 0; i < 2; ++i) {
      auto& shard = *time.add_at_shards();
      shard.set_shard(i);
      shard.set_network_us(Us(shards[i].first));
      shard.set_queue_us(Us(shards[i].second));
    }
  }

  v1::ShardLoad& Load(int shard) { return *status.mutable_shards(shard)->mutable_load(); }
  // The shard is asked for 1000 rows a second, so many of which are this key of table 7.
  v1::HotKey& HotKey(int shard, uint64_t key, uint64_t rows_per_s) {
    v1::ShardLoad& load = Load(shard);
    load.set_read_per_s(1000);
    v1::HotKey& hot = *load.add_segments()->add_keys();
    hot.set_table(7);
    hot.set_key(key);
    hot.set_rows_per_s(rows_per_s);
    return hot;
  }

  std::vector<std::string> Found() {
    const auto explanation = Explain("ctr", status, nullptr);
    EXPECT_TRUE(explanation.ok()) << explanation.status();
    std::vector<std::string> found;
    for (const Finding& finding : explanation->findings) {
      EXPECT_FALSE(finding.text.empty());
      found.push_back(KindName(finding.kind) + " " + finding.who);
    }
    return found;
  }

  v1::StatusReply status;
};

TEST_F(ExplainTest, OthersWaitForASlowWorker) {
  Worker({.staleness = 60, .for_rank = 2});
  Worker({.staleness = 50, .for_rank = 2});
  Worker({.staleness = 1, .for_rank = 0});
  EXPECT_THAT(Found(), ElementsAre("slow_worker worker 2"));
  EXPECT_EQ(Explain("ctr", status, nullptr)->straggler->name, "worker 2");
}

TEST_F(ExplainTest, AStragglerMayBeOneForItsLink) {
  Worker({.staleness = 60, .for_rank = 1});
  Worker({.to_shard_0 = 40, .to_shard_1 = 30});
  EXPECT_THAT(Found(), ElementsAre("slow_link worker 1"));
  EXPECT_EQ(Explain("ctr", status, nullptr)->straggler->name, "worker 1");
}

TEST_F(ExplainTest, ALinkIsThatOfAWorkerOfAShardOrBetweenTwo) {
  Worker({.to_shard_1 = 40});
  Worker({.to_shard_0 = 1});
  Worker({.to_shard_0 = 1});
  EXPECT_THAT(Found(), ElementsAre("slow_link worker 0 to shard-1"));
  status.mutable_jobs(0)->clear_sessions();
  Worker({.to_shard_1 = 40});
  Worker({.to_shard_1 = 30});
  Worker({.to_shard_0 = 10, .to_shard_1 = 40});
  EXPECT_THAT(Found(), ElementsAre("slow_link shard-1"));
}

TEST_F(ExplainTest, WhatEverybodyWaitsForEverywhereIsNobodysFault) {
  Worker({.to_shard_0 = 20, .to_shard_1 = 20});
  Worker({.to_shard_0 = 25, .to_shard_1 = 15});
  EXPECT_THAT(Found(), ElementsAre("network all links"));
}

TEST_F(ExplainTest, WorkersThatWaitForOneAnotherInTurnHaveATightBound) {
  Worker({.staleness = 30, .for_rank = 1});
  Worker({.staleness = 35, .for_rank = 2});
  Worker({.staleness = 30, .for_rank = 0});
  EXPECT_THAT(Found(), ElementsAre("tight_bound table weights"));
  const auto explanation = Explain("ctr", status, nullptr);
  EXPECT_THAT(explanation->findings[0].text, HasSubstr("at a bound of 1 clocks; try ssp:4"));
  EXPECT_FALSE(explanation->straggler.has_value());
}

TEST_F(ExplainTest, ABoundThatFollowsIsShownAndNamedWhenItIsAtItsLargest) {
  v1::Table& table = *status.add_tables();
  table.set_name("weights");
  table.set_bound_max(8);
  table.set_bound(4);
  Worker({.staleness = 40, .for_rank = 1});
  Worker({.staleness = 40, .for_rank = 0});
  EXPECT_THAT(Found(), ElementsAre("tight_bound table weights"));
  const auto text = [&] { return ExplanationText(*Explain("ctr", status, nullptr)); };
  EXPECT_THAT(text(), HasSubstr("Bound of table weights: 4, at most 8; it follows the waiting"));
  EXPECT_THAT(text(), HasSubstr("has not settled"));
  table.set_bound(8);
  EXPECT_THAT(text(), HasSubstr("try ssp:auto:16"));
  EXPECT_THAT(ExplanationJson(*Explain("ctr", status, nullptr)), HasSubstr("\"most\": 8"));
}

TEST_F(ExplainTest, AShardWithTooMuchWorkAndItsHottestKey) {
  Worker({.at_shard_0 = 2, .at_shard_1 = 40});
  Worker({.at_shard_0 = 2, .at_shard_1 = 50});
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard shard-1"));
  v1::Table& table = *status.add_tables();
  table.set_id(7);
  table.set_name("t");
  HotKey(0, 1, 900);
  HotKey(1, 2, 10);
  v1::HotKey& hot = HotKey(1, 3, 320);
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard shard-1", "hot_key key 3 of table t"));
  hot.set_error(40);
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard shard-1")) << "it may be less than 30 %";
}

TEST_F(ExplainTest, AHotKeyIsNamedWhereverItsShardAnswersLate) {
  Worker({.to_shard_1 = 40});
  Worker({.to_shard_1 = 30});
  HotKey(0, 1, 900);
  HotKey(1, 3, 600);
  EXPECT_THAT(Found(), ElementsAre("slow_link shard-1", "hot_key key 3 of table 7"));
  status.mutable_shards()->RemoveLast();
  status.mutable_jobs(0)->clear_sessions();
  Worker({.to_shard_0 = 40});
  Worker({.to_shard_0 = 40});
  EXPECT_THAT(Found(), ElementsAre("network all links", "hot_key key 1 of table 7"));
}

// A shard that works all the time does not see how long frames lie in its connections.
TEST_F(ExplainTest, WhatABusyShardDoesNotTakeIsNotTheLinks) {
  Worker({.to_shard_0 = 1, .to_shard_1 = 40});
  Worker({.to_shard_0 = 1, .to_shard_1 = 30});
  Load(0).set_busy_permille(100);
  Load(1).set_busy_permille(650);
  EXPECT_THAT(Found(), ElementsAre("slow_link shard-1")) << "it has time to take them";
  Load(1).set_busy_permille(990);
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard shard-1"));
  EXPECT_EQ(Explain("ctr", status, nullptr)->hot_shard->name, "shard-1");
  Load(0).set_busy_permille(900);
  EXPECT_THAT(Found(), ElementsAre("slow_link shard-1")) << "the other works as much";
}

TEST_F(ExplainTest, TooFewShards) {
  Worker({.at_shard_0 = 20, .at_shard_1 = 22});
  for (uint32_t i = 2; i < 4; ++i) status.add_shards()->mutable_info()->set_shard(i);
  auto& shards = *status.mutable_jobs(0)->mutable_sessions(0)->mutable_time();
  for (uint32_t i = 2; i < 4; ++i) {
    auto& shard = *shards.add_at_shards();
    shard.set_shard(i);
    shard.set_queue_us(Us(20));
  }
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard all shards"));
}

TEST_F(ExplainTest, WhatCostsMostComesFirst) {
  Worker({.staleness = 20, .for_rank = 1, .at_shard_1 = 50});
  Worker({.at_shard_1 = 40});
  EXPECT_THAT(Found(), ElementsAre("overloaded_shard shard-1", "slow_worker worker 1"));
}

TEST_F(ExplainTest, NothingIsWorthAWord) {
  Worker({.staleness = 1, .for_rank = 1, .to_shard_0 = 1, .at_shard_0 = 1});
  Worker({.staleness = 1, .for_rank = 0, .to_shard_1 = 1, .at_shard_1 = 1});
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(ExplanationText(*Explain("ctr", status, nullptr)), HasSubstr("Nothing costs 5 %"));
}

TEST_F(ExplainTest, OfAWhileOnlyWhatHasComeSinceCounts) {
  Worker({.staleness = 60, .for_rank = 1});
  Worker({});
  const v1::StatusReply before = status;
  v1::WorkerTime& time = *status.mutable_jobs(0)->mutable_sessions(0)->mutable_time();
  time.set_all_us(time.all_us() + Us(10));
  time.set_compute_us(time.compute_us() + Us(2));
  time.mutable_blocked()->set_queue_us(Us(8));
  time.mutable_at_shards(0)->set_queue_us(Us(8));
  const auto explanation = Explain("ctr", status, &before);
  ASSERT_TRUE(explanation.ok());
  EXPECT_EQ(explanation->total.all_us(), Us(10));
  EXPECT_EQ(explanation->total.blocked().staleness_us(), 0u);
  ASSERT_EQ(explanation->findings.size(), 1u);
  EXPECT_EQ(explanation->findings[0].who, "shard-0");
  EXPECT_THAT(Explain("ctr", before, &before), StatusIs(absl::StatusCode::kNotFound, HasSubstr("meanwhile")));
}

TEST_F(ExplainTest, AJobThatDoesNotExistOrHasToldNothing) {
  EXPECT_THAT(Explain("other", status, nullptr), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'other'")));
  EXPECT_THAT(Explain("ctr", status, nullptr), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has told")));
}

TEST_F(ExplainTest, TextAndJsonHaveEveryWorker) {
  Worker({.staleness = 60, .for_rank = 1});
  Worker({.to_shard_0 = 2});
  const auto explanation = Explain("ctr", status, nullptr);
  EXPECT_THAT(ExplanationText(*explanation), HasSubstr("  0       "));
  EXPECT_THAT(ExplanationText(*explanation), HasSubstr("  - slow_worker, worker 1: "));
  const auto json = nlohmann::json::parse(ExplanationJson(*explanation));
  EXPECT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][0]["blocked"]["staleness"], 60);
  EXPECT_EQ(json["workers"][0]["for_workers"], nlohmann::json::parse(R"([{"rank": 1, "staleness": 60.0}])"));
  EXPECT_EQ(json["workers"][1]["at_shards"][0]["network"], 2);
  EXPECT_EQ(json["total"]["seconds"], 200);
  EXPECT_EQ(json["findings"][0]["kind"], "slow_worker");
  EXPECT_EQ(json["straggler"]["name"], "worker 1");
}

}  // namespace
}  // namespace paceline::tool
