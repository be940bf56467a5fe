// Segments that move by load.
#include "services/coordinator/metadata/placement/loads.h"

#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kHottest = 100'000;

// Clients ask twice as much of the segments of which the first shard was primary at first, and most of
// segment 0.
class LoadsTest : public ReplicatedTest {
 protected:
  struct Moves : Probe {
    void MovesByLoad(uint32_t segment, uint32_t from, uint32_t to) override {
      moves.push_back({segment, from, to});
    }
    std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> moves;
  };

  void Begin(uint32_t replicas, bool on = true) {
    Start(replicas, 4, 4, {.on = on});
    cluster_->probe = &moves_;
    const uint32_t first = Config(0).primary().shard();
    for (const auto& config : Configs()) hot_.push_back(config.primary().shard() == first);
    ASSERT_THAT(cluster_->Restart(), IsOk());
  }
  void TearDown() override { cluster_.reset(); }  // it may report to the end
  uint64_t RowsOf(uint32_t segment) const {
    return (hot_[segment] ? kHottest : kHottest / 2) - 100 * segment;
  }
  // What primaries would tell of the segments that they have by the map.
  void Tell(const std::set<std::string>& silent = {}) {
    for (auto& [name, shard] : shards().all()) shard.says.clear_load();
    const std::vector<v1::SegmentConfig> configs = Configs();
    for (uint32_t s = 0; s < configs.size(); ++s) {
      const std::string name = NameOf(configs[s].primary());
      if (silent.contains(name)) continue;
      v1::ShardLoad& load = *shards().at(name).says.mutable_load();
      load.set_pushed_per_s(load.pushed_per_s() + RowsOf(s));
      v1::SegmentLoad& one = *load.add_segments();
      one.set_segment(s);
      one.set_pushed_per_s(RowsOf(s));
    }
  }
  void Work(int seconds, const std::set<std::string>& silent = {}) {
    for (int i = 0; i < 4 * seconds; ++i) {
      Tell(silent);
      Obey();
      cluster_->Run(absl::Milliseconds(250));
    }
  }
  double Peak() { return cluster_->core().Status().load().peak_percent() / 100.0; }
  std::map<uint32_t, int> Copies() {
    std::map<uint32_t, int> copies;
    for (const auto& config : Configs()) {
      ++copies[config.primary().shard()];
      for (const auto& replica : config.replicas()) ++copies[replica.shard()];
    }
    return copies;
  }

  // Of each segment.
  std::vector<std::set<uint32_t>> Members() {
    std::vector<std::set<uint32_t>> members;
    for (const auto& config : Configs()) {
      members.push_back({config.primary().shard()});
      for (const auto& replica : config.replicas()) members.back().insert(replica.shard());
    }
    return members;
  }

  Moves moves_;
  std::vector<bool> hot_;  // by segment
};

TEST_F(LoadsTest, WithoutReplicasSegmentsAreExchangedWithTheirData) {
  Begin(0);
  Work(19);
  EXPECT_GT(Peak(), 1.15);
  EXPECT_THAT(moves_.moves, IsEmpty()) << "a coordinator that has just begun does not know what has moved";
  Work(60);
  EXPECT_LT(Peak(), 1.15);
  for (const auto& [shard, copies] : Copies()) EXPECT_EQ(copies, 4) << shard;
  for (const auto& config : Configs()) EXPECT_THAT(config.replicas(), IsEmpty());
  EXPECT_EQ(cluster_->core().Status().load().moved(), moves_.moves.size());
  const size_t before = moves_.moves.size();
  Work(120);
  EXPECT_EQ(moves_.moves.size(), before) << "the load stays as it is: nothing moves";
}

TEST_F(LoadsTest, WithReplicasPrimariesAreHandedOver) {
  Begin(1);
  const auto members = Members();
  Work(90);
  EXPECT_LT(Peak(), 1.25);
  EXPECT_FALSE(moves_.moves.empty());
  EXPECT_EQ(Members(), members) << "no data moves";
}

TEST_F(LoadsTest, NothingMovesUnlessAskedTo) {
  Begin(0, /*on=*/false);
  Work(60);
  EXPECT_THAT(moves_.moves, IsEmpty());
  EXPECT_GT(Peak(), 1.15) << "it is shown all the same";
  EXPECT_FALSE(cluster_->core().Status().load().balances());
}

TEST_F(LoadsTest, NothingMovesBeforeEveryPrimaryHasTold) {
  Begin(0);
  Work(60, {"shard-2"});
  EXPECT_THAT(moves_.moves, IsEmpty());
  Work(30);
  EXPECT_FALSE(moves_.moves.empty());
}

TEST_F(LoadsTest, WhatAnEarlierStartToldDoesNotCount) {
  Begin(0);
  Work(5);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-1"), IsOk());
  shards().at("shard-1").says.clear_load();
  const v1::StatusReply status = cluster_->core().Status();
  for (const v1::ShardStatus& shard : status.shards())
    EXPECT_EQ(shard.has_load(), shard.info().name() != "shard-1");
}

TEST_F(LoadsTest, NothingMovesByLoadWhileAShardDrains) {
  Begin(0);
  Work(5);
  v1::DrainShardsRequest drain;
  drain.add_shards("shard-3");
  ASSERT_THAT(cluster_->core().DrainShards(drain), IsOk());
  shards().hold = [](const std::string& call, const std::string&) { return call == "Recruit"; };
  Work(60);
  EXPECT_THAT(moves_.moves, IsEmpty());
}

TEST_F(LoadsTest, AKeyThatNoMoveCanHelpIsNamed) {
  Begin(0);
  Tell();
  const std::string hot = NameOf(Config(0).primary());
  v1::SegmentLoad& segment = *shards().at(hot).says.mutable_load()->mutable_segments(0);
  ASSERT_EQ(segment.segment(), 0u);
  v1::HotKey& key = *segment.add_keys();
  key.set_table(3);
  key.set_key(42);
  key.set_rows_per_s(4 * kHottest);
  key.set_error(1);
  v1::HotKey& cold = *segment.add_keys();
  cold.set_table(3);
  cold.set_key(43);
  cold.set_rows_per_s(4 * kHottest);
  cold.set_error(4 * kHottest - 1);
  shards().BeatAll(cluster_->core());
  const v1::LoadStatus status = cluster_->core().Status().load();
  ASSERT_THAT(status.too_hot(), SizeIs(1));
  EXPECT_EQ(status.too_hot(0).key().key(), 42u);
  EXPECT_EQ(status.too_hot(0).shard(), shards().at(hot).id);
  EXPECT_EQ(status.too_hot(0).segment(), 0u);
}

}  // namespace
}  // namespace paceline::coordinator
