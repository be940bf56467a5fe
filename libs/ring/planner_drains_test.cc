// Shards that drain, by the planner's promises (planner.h). A failure names its seed.

#include "libs/ring/test_plans.h"

namespace paceline::ring {
namespace {

// Some shards drain while others are far from even; some of the drains are cancelled in between.
TEST(PlannerDrainsTest, ShardsThatDrainEndWithNothingAndNoSegmentHasFewerMembersMeanwhile) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(2 + Pick(random, 8), 1u << Pick(random, 7), Pick(random, 3));
    if (cluster.shards.size() <= cluster.replicas + 1) continue;
    cluster.moves_per_shard = 1 + Pick(random, 8);
    const uint32_t members = cluster.replicas + 1;
    Pick(random, 2) == 0 ? Place(cluster) : Scatter(cluster, random, members, members);
    std::set<ShardId> draining;
    const size_t most = cluster.shards.size() - members;
    for (size_t n = 1 + Pick(random, most); n > 0; --n) {
      ShardState& shard = cluster.shards[Pick(random, cluster.shards.size())];
      shard.takes = Takes::kDrains;
      draining.insert(shard.shard);
    }
    const Loads before = CopiesOf(cluster);
    int64_t its = 0;
    for (const ShardId shard : draining) its += before.at(shard);
    const std::vector<Move> moves = Settle(cluster, random);
    EXPECT_GE(static_cast<int64_t>(CountOf(Kind::kRecruit, moves)), its);
    Loads loads = CopiesOf(cluster);
    Loads primaries = PrimariesOf(cluster);
    for (const ShardId shard : draining) {
      EXPECT_EQ(loads.at(shard), 0);
      loads.erase(shard);
      primaries.erase(shard);
    }
    EXPECT_LE(Spread(loads), 1);
    EXPECT_LE(Spread(primaries), 1);
    for (const SegmentState& state : cluster.segments) EXPECT_EQ(MembersOf(state).size(), members);
  }
}

TEST(PlannerDrainsTest, ACancelledDrainKeepsWhatHasMovedAndEvensOut) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    PlanInput cluster = NewCluster(3 + Pick(random, 6), 1u << Pick(random, 7), Pick(random, 2));
    cluster.moves_per_shard = 1 + Pick(random, 8);
    Place(cluster);
    ShardState& drains = cluster.shards[Pick(random, cluster.shards.size())];
    drains.takes = Takes::kDrains;
    // Some of its moves end, others are under way when it is cancelled.
    for (int rounds = static_cast<int>(Pick(random, 8)); rounds > 0; --rounds) {
      for (const Move& move : PlanRound(cluster).moves) {
        SegmentState& state = cluster.segments[move.segment.v];
        Pick(random, 2) == 0 ? Apply(move, state) : static_cast<void>(state.under_way = move);
      }
    }
    drains.takes = Takes::kAll;
    Settle(cluster, random);
    EXPECT_LE(Spread(CopiesOf(cluster)), 1);
    EXPECT_LE(Spread(PrimariesOf(cluster)), 1);
    for (const SegmentState& state : cluster.segments)
      EXPECT_EQ(MembersOf(state).size(), cluster.replicas + size_t{1});
  }
}

}  // namespace
}  // namespace paceline::ring
