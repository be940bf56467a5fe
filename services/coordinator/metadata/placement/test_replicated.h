#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/placement/config_wishes.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {

inline v1::ConfigWish WishOf(v1::ConfigWish::Kind kind, uint32_t segment, uint64_t epoch,
                             const std::vector<v1::Member>& members = {}) {
  v1::ConfigWish wish;
  wish.set_kind(kind);
  wish.set_segment(segment);
  wish.set_epoch(epoch);
  for (const v1::Member& member : members) *wish.add_members() = member;
  return wish;
}

// Three shards and eight segments with `replicas` replicas each, all of which every shard knows. A session
// has been opened: there is something to lose.
class ReplicatedTest : public ::testing::Test {
 protected:
  void Start(uint32_t replicas, uint32_t shards = 3, int ring_bits = 3, ByLoad by_load = {}) {
    // Several moves at a time, so that they meet.
    cluster_ = std::make_unique<TestCluster>(
        shards,
        Options{.replicas = replicas, .ring_bits = ring_bits, .moves_per_shard = 8, .by_load = by_load});
    cluster_->JoinShards();
    cluster_->Run(absl::Seconds(1));
    ASSERT_NE(cluster_->Opened("ctr"), 0u);
  }

  FakeShards& shards() { return cluster_->shards(); }
  v1::Map Map() {
    v1::Map map;
    const auto id = cluster_->core().WatchMap(0, [&](const auto& newest) { map = *newest; });
    EXPECT_THAT(id, paceline::testing::IsOk());
    if (id.ok()) cluster_->core().Unwatch(*id);
    return map;
  }
  std::vector<v1::SegmentConfig> Configs() {
    const v1::Map map = Map();
    return {map.segments().begin(), map.segments().end()};
  }
  v1::SegmentConfig Config(uint32_t segment) { return Map().segments(static_cast<int>(segment)); }
  std::string NameOf(const v1::Member& member) {
    for (const auto& [name, shard] : shards().all()) {
      if (shard.id == member.shard()) return name;
    }
    return "nobody";
  }
  FakeShard& ShardOf(const v1::Member& member) { return shards().at(NameOf(member)); }
  absl::StatusOr<v1::ChangeConfigsReply> Wish(const v1::Member& from,
                                              const std::vector<v1::ConfigWish>& wishes) {
    return shards().Wish(cluster_->core(), NameOf(from), wishes);
  }
  // The shard, a replica, wishes to be primary of all segments that `dead` is primary of.
  std::vector<v1::ConfigWish> WishesToReplace(const v1::Member& dead, const FakeShard& replica) {
    std::vector<v1::ConfigWish> wishes;
    const v1::Map map = Map();
    for (uint32_t s = 0; s < static_cast<uint32_t>(map.segments_size()); ++s) {
      const v1::SegmentConfig& config = map.segments(static_cast<int>(s));
      if (Same(config.primary(), dead) && HasReplica(config, replica.member())) {
        wishes.push_back(WishOf(v1::ConfigWish::PROMOTE, s, config.epoch()));
      }
    }
    return wishes;
  }
  // Primaries do what they were asked to since the last time: each learner has caught up, each replica has
  // the last record.
  void Obey() {
    for (auto& [name, shard] : shards().all()) {
      for (const auto& request : std::exchange(shard.recruits, {})) {
        for (const auto& segment : request.segments()) {
          Ask(name, v1::ConfigWish::ADD, segment.segment(), segment.learner());
        }
      }
    }
    ObeyHandOvers();
  }
  void ObeyHandOvers() {
    for (auto& [name, shard] : shards().all()) {
      for (const auto& request : std::exchange(shard.hand_overs, {})) {
        for (const auto& segment : request.segments()) {
          Ask(name, v1::ConfigWish::SWAP, segment.segment(), segment.to());
        }
      }
    }
  }
  // Primaries ask for those replicas to be dropped that are not there any more.
  void DropDead() {
    const v1::Map map = Map();
    for (uint32_t s = 0; s < static_cast<uint32_t>(map.segments_size()); ++s) {
      const v1::SegmentConfig& config = map.segments(static_cast<int>(s));
      for (const v1::Member& replica : config.replicas()) {
        if (ShardOf(replica).up && Same(replica, ShardOf(replica).member())) continue;
        Ask(NameOf(config.primary()), v1::ConfigWish::DROP, s, replica);
      }
    }
  }
  void Ask(const std::string& name, v1::ConfigWish::Kind kind, uint32_t segment, const v1::Member& member) {
    (void)shards().Wish(cluster_->core(), name, {WishOf(kind, segment, Config(segment).epoch(), {member})});
  }
  static std::vector<uint32_t> Shards(const v1::SegmentConfig& config) {
    std::vector<uint32_t> shards;
    for (const v1::Member& replica : config.replicas()) shards.push_back(replica.shard());
    return shards;
  }

  std::unique_ptr<TestCluster> cluster_;
};

}  // namespace paceline::coordinator
