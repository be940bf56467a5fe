// PlanRound against its promises (planner.h), over random clusters whose moves end in random order. What the
// promises mean is written down here as slowly and plainly as possible. A failure names its seed.

#include "libs/ring/test_plans.h"

namespace paceline::ring {
namespace {

TEST(PlannerPropertyTest, ANewClusterIsEvenAndAtRest) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(1 + Pick(random, 12), 1u << Pick(random, 9), Pick(random, 4));
    const size_t size = std::min(cluster.replicas + size_t{1}, cluster.shards.size());
    Place(cluster);
    for (const SegmentState& state : cluster.segments) EXPECT_EQ(MembersOf(state).size(), size);
    EXPECT_LE(Spread(CopiesOf(cluster)), 1);
    EXPECT_LE(Spread(PrimariesOf(cluster)), 1);
    EXPECT_TRUE(Settle(cluster, random).empty());
  }
}

TEST(PlannerPropertyTest, AnyStartComesToRestWithEvenLoads) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 7), 1u << Pick(random, 7), Pick(random, 4));
    cluster.moves_per_shard = 1 + Pick(random, 8);
    Scatter(cluster, random, 1, cluster.replicas + 3);
    Settle(cluster, random);
    const size_t size = std::min(cluster.replicas + size_t{1}, cluster.shards.size());
    for (const SegmentState& state : cluster.segments) EXPECT_EQ(MembersOf(state).size(), size);
    EXPECT_LE(Spread(CopiesOf(cluster)), 1);
    EXPECT_LE(Spread(PrimariesOf(cluster)), 1);
  }
}

TEST(PlannerPropertyTest, TheFewestCopiesAreMade) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 7), 1u << Pick(random, 7), Pick(random, 4));
    if (cluster.shards.size() <= cluster.replicas) continue;
    cluster.moves_per_shard = 1 + Pick(random, 8);
    Scatter(cluster, random, cluster.replicas + 1, cluster.replicas + 1);
    const auto needed = static_cast<size_t>(CopiesTooMany(CopiesOf(cluster)));
    EXPECT_EQ(CountOf(Kind::kRecruit, Settle(cluster, random)), needed);
  }
}

TEST(PlannerPropertyTest, InASmallClusterNoOtherWayMakesFewerCopies) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 3), 1 + Pick(random, 5), Pick(random, 3));
    cluster.moves_per_shard = 1 + Pick(random, 3);
    if (cluster.shards.size() <= cluster.replicas) continue;
    Scatter(cluster, random, cluster.replicas + 1, cluster.replicas + 1);
    const size_t fewest = Fewest(cluster).copies();
    EXPECT_EQ(CountOf(Kind::kRecruit, Settle(cluster, random)), fewest);
  }
}

TEST(PlannerPropertyTest, ANewShardGetsItsShareAndNoOtherShardGetsAny) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 8), 1u << Pick(random, 8), Pick(random, 4));
    if (cluster.shards.size() <= cluster.replicas) continue;
    cluster.moves_per_shard = 1 + Pick(random, 8);
    Place(cluster);
    const Loads copies = CopiesOf(cluster);
    const Loads primaries = PrimariesOf(cluster);
    const ShardId joins(Pick(random, 2) == 0 ? 0 : 1000);
    cluster.shards.push_back({.shard = joins});
    const std::vector<Move> moves = Settle(cluster, random);
    const size_t share = cluster.segments.size() * (cluster.replicas + 1) / cluster.shards.size();
    EXPECT_EQ(CountOf(Kind::kRecruit, moves), share);
    EXPECT_EQ(CountOf(Kind::kDrop, moves), share);
    for (const Move& move : moves) {
      EXPECT_TRUE(move.kind != Kind::kRecruit || move.to == joins) << ToString(move);
    }
    for (const auto& [shard, load] : copies) EXPECT_LE(CopiesOf(cluster).at(shard), load);
    for (const auto& [shard, load] : primaries) EXPECT_LE(PrimariesOf(cluster).at(shard), load);
  }
}

TEST(PlannerPropertyTest, OnlyALeavingShardLosesItsCopies) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(3 + Pick(random, 8), 1u << Pick(random, 8), 1 + Pick(random, 3));
    if (cluster.shards.size() <= cluster.replicas + 1) continue;
    cluster.moves_per_shard = 1 + Pick(random, 8);
    Place(cluster);
    // It hands over its primaries, and leaves the rest.
    const size_t index = Pick(random, cluster.shards.size());
    const ShardId leaves = cluster.shards[index].shard;
    cluster.shards[index].takes = Takes::kNothing;
    std::set<SegmentId> its;
    for (uint32_t s = 0; s < cluster.segments.size(); ++s) {
      if (std::erase(cluster.segments[s].members, leaves) > 0) its.insert(SegmentId(s));
    }
    for (const Move& move : Settle(cluster, random, /*repairs_only=*/true)) {
      EXPECT_EQ(move.kind, Kind::kRecruit) << ToString(move);
      EXPECT_EQ(its.erase(move.segment), 1u) << ToString(move);
      EXPECT_NE(move.to, leaves) << ToString(move);
    }
    EXPECT_TRUE(its.empty());
    Loads loads = CopiesOf(cluster);
    loads.erase(leaves);
    const auto needed = static_cast<size_t>(CopiesTooMany(loads));
    EXPECT_EQ(CountOf(Kind::kRecruit, Settle(cluster, random)), needed);
  }
}

TEST(PlannerPropertyTest, MembersAreInDifferentZonesWhereThereAreEnough) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 7), 1u << Pick(random, 6), 1 + Pick(random, 3));
    for (ShardState& shard : cluster.shards) {
      const uint32_t zone = Pick(random, 4);
      if (zone > 0) shard.zone = absl::StrCat("zone-", zone);
    }
    if (Pick(random, 4) == 0) {
      Place(cluster);
    } else {
      Scatter(cluster, random, 1, cluster.replicas + 3);
    }
    Settle(cluster, random);
    const std::map<ShardId, std::string> zones = Zones(cluster);
    for (const SegmentState& state : cluster.segments) {
      EXPECT_EQ(SharingPairs(MembersOf(state), zones),
                FewestSharingPairs(state.members[0], state.members.size(), cluster));
    }
  }
}

// With loads of segments, or zones, there is not always an even way; but nothing that one step could mend is
// left.
TEST(PlannerPropertyTest, AtRestNoReplacementAndNoHandOverWouldMakeLoadsMoreEven) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 6), 1u << Pick(random, 6), 1 + Pick(random, 2));
    for (SegmentState& state : cluster.segments) state.load = 1 + Pick(random, 9);
    if (seed % 2 == 0) {
      for (ShardState& shard : cluster.shards) shard.zone = absl::StrCat("zone-", Pick(random, 3));
    }
    if (Pick(random, 4) == 0) {
      Place(cluster);
    } else {
      Scatter(cluster, random, 1, cluster.replicas + 3);
    }
    Settle(cluster, random);
    const std::map<ShardId, std::string> zones = Zones(cluster);
    const Loads copies = CopiesOf(cluster);
    const Loads primaries = PrimariesOf(cluster);
    for (const SegmentState& state : cluster.segments) {
      const Members members = MembersOf(state);
      for (size_t i = 1; i < state.members.size(); ++i) {
        const ShardId replica = state.members[i];
        EXPECT_LE(primaries.at(state.members[0]) - primaries.at(replica), state.load);
        for (const ShardState& other : cluster.shards) {
          if (members.contains(other.shard)) continue;
          Members instead = members;
          instead.erase(replica);
          instead.insert(other.shard);
          if (SharingPairs(instead, zones) > SharingPairs(members, zones)) continue;
          EXPECT_LE(copies.at(replica) - copies.at(other.shard), state.load);
        }
      }
    }
  }
}

// While shards fail and segments move, each round is sound, and segments that are not sound are only
// repaired.
TEST(PlannerPropertyTest, DuringFailuresOnlyRepairsArePlanned) {
  for (uint64_t seed = 0; seed < 5 * kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 6), 1u << Pick(random, 6), Pick(random, 3));
    cluster.moves_per_shard = 1 + Pick(random, 4);
    Scatter(cluster, random, 1, cluster.replicas + 3);
    for (ShardState& shard : cluster.shards) shard.takes = static_cast<Takes>(Pick(random, 3));
    bool sound = true;
    for (SegmentState& state : cluster.segments) {
      if (Pick(random, 4) != 0) continue;
      state.condition = static_cast<Condition>(Pick(random, 3));
      sound = sound && state.condition == Condition::kSound;
    }
    const Round round = PlanRound(cluster);
    ExpectSound(cluster, round, random);
    for (const Move& move : round.moves) {
      EXPECT_TRUE(sound || move.kind == Kind::kRecruit) << ToString(move);
    }
  }
}

}  // namespace
}  // namespace paceline::ring
