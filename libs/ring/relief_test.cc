// Step 7: segments that move by load.
#include "libs/ring/relief.h"

#include <cmath>

#include "gmock/gmock.h"
#include "libs/ring/test_plans.h"

namespace paceline::ring {
namespace {

using ::testing::IsEmpty;

// By shard, in means of all shards.
using Has = std::map<ShardId, double>;

Has TrafficOf(const PlanInput& cluster) {
  Has has;
  double sum = 0;
  for (const ShardState& shard : cluster.shards) has[shard.shard] = 0;
  for (const SegmentState& state : cluster.segments)
    has[state.members[0]] += state.traffic, sum += state.traffic;
  for (auto& [shard, traffic] : has) traffic *= static_cast<double>(cluster.shards.size()) / sum;
  return has;
}
Has BytesOf(const PlanInput& cluster) {
  Has has;
  double sum = 0;
  for (const ShardState& shard : cluster.shards) has[shard.shard] = 0;
  for (const SegmentState& state : cluster.segments) {
    for (const ShardId member : state.members) has[member] += state.bytes, sum += state.bytes;
  }
  for (auto& [shard, bytes] : has) bytes *= sum > 0 ? static_cast<double>(cluster.shards.size()) / sum : 0;
  return has;
}
double Peak(const Has& has) {
  double peak = 0;
  for (const auto& [shard, amount] : has) peak = std::max(peak, amount);
  return peak;
}
double Squares(const PlanInput& cluster) {
  double squares = 0;
  for (const Has& has : {TrafficOf(cluster), BytesOf(cluster)}) {
    for (const auto& [shard, amount] : has) squares += amount * amount;
  }
  return squares;
}

void SetLoads(PlanInput& cluster, SplitMix64& random) {
  for (SegmentState& state : cluster.segments) {
    const double unit = static_cast<double>(1 + Pick(random, 1000)) / 1000;
    state.traffic = 1 / (unit * unit);  // a few have most
    state.bytes = 50 + Pick(random, 100);
  }
}

PlanInput AtRest(uint32_t shards, uint32_t segments, uint32_t replicas, SplitMix64& random) {
  PlanInput cluster = NewCluster(shards, segments, replicas);
  Place(cluster);
  SetLoads(cluster, random);
  cluster.by_load = true;
  return cluster;
}

// As the coordinator does: who is relieved by a copy is noted, and the moves end in any order.
void SettleByLoad(PlanInput& cluster, SplitMix64& random) {
  for (int step = 0; step < 100'000; ++step) {
    const Round round = PlanRound(cluster);
    ExpectSound(cluster, round, random);
    for (const Move& move : round.moves) {
      SegmentState& state = cluster.segments[move.segment.v];
      if (move.relieves.has_value() && move.kind == Kind::kRecruit) state.relieves = move.relieves;
      state.under_way = move;
      if (move.kind == Kind::kDrop) Apply(move, state);
    }
    std::vector<SegmentState*> busy;
    for (SegmentState& state : cluster.segments) {
      if (state.under_way.has_value()) busy.push_back(&state);
    }
    if (busy.empty() && round.moves.empty()) return;
    if (busy.empty()) continue;
    SegmentState& state = *busy[Pick(random, busy.size())];
    Apply(*state.under_way, state);
  }
  ADD_FAILURE() << "no rest";
}

TEST(ReliefTest, ExchangesMakeLoadsMoreEvenKeepNumbersAndEnd) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 random(seed);
    const uint32_t replicas = Pick(random, 3);
    const uint32_t shards = replicas + 2 + Pick(random, 4);
    PlanInput cluster = AtRest(shards, 32, replicas, random);
    const bool bytes = Pick(random, 2) == 0;
    for (SegmentState& state : cluster.segments) state.bytes *= bytes ? 1 : 0;
    const PlanInput before = cluster;
    SettleByLoad(cluster, random);
    EXPECT_LE(Spread(CopiesOf(cluster)), std::max<int64_t>(1, Spread(CopiesOf(before))));
    EXPECT_LE(Spread(PrimariesOf(cluster)), std::max<int64_t>(1, Spread(PrimariesOf(before))));
    EXPECT_LE(Squares(cluster), Squares(before) + 1e-9);
    EXPECT_TRUE(bytes || Peak(TrafficOf(cluster)) <= Peak(TrafficOf(before)) + 1e-9);
    for (const SegmentState& state : cluster.segments) EXPECT_EQ(state.members.size(), replicas + 1);
  }
}

// Zipf's law with exponent 1.1 over 10^6 keys, hashed to 64 segments: the figures of the benchmark.
TEST(ReliefTest, ZipfIsNearTheMeanOnFourShards) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 random(seed);
    PlanInput cluster = AtRest(4, 64, 0, random);
    for (SegmentState& state : cluster.segments) state.traffic = 0, state.bytes = 100;
    for (int rank = 1; rank <= 1'000'000; ++rank)
      cluster.segments[Pick(random, 64)].traffic += std::pow(rank, -1.1);
    SettleByLoad(cluster, random);
    EXPECT_LT(Peak(TrafficOf(cluster)), 1.2);
  }
}

TEST(ReliefTest, OneHotSegmentStaysWhereItIsAndOthersMakeRoom) {
  SplitMix64 random(1);
  PlanInput cluster = AtRest(2, 8, 0, random);
  for (SegmentState& state : cluster.segments) state.traffic = 1, state.bytes = 0;
  cluster.segments[3].traffic = 100;
  const ShardId hot = cluster.segments[3].members[0];
  SettleByLoad(cluster, random);
  EXPECT_EQ(cluster.segments[3].members[0], hot) << "elsewhere it would be as hot";
}

TEST(ReliefTest, NothingMovesWhileASegmentRestsADrainGoesOnOrACopyIsMissing) {
  SplitMix64 random(7);
  const PlanInput cluster = AtRest(4, 32, 1, random);
  ASSERT_FALSE(PlanRound(cluster).moves.empty());
  PlanInput resting = cluster;
  for (SegmentState& state : resting.segments) state.rests = true;
  EXPECT_THAT(PlanRound(resting).moves, IsEmpty());
  PlanInput off = cluster;
  off.by_load = false;
  EXPECT_THAT(PlanRound(off).moves, IsEmpty());
  const auto none_by_load = [](const PlanInput& input) {
    return std::ranges::none_of(PlanRound(input).moves,
                                [](const Move& move) { return move.relieves.has_value(); });
  };
  PlanInput drains = cluster;
  drains.shards[1].takes = Takes::kDrains;
  EXPECT_TRUE(none_by_load(drains));
  PlanInput lacking = cluster;
  lacking.segments[5].members.pop_back();
  EXPECT_TRUE(none_by_load(lacking));
  PlanInput damaged = cluster;
  damaged.segments[5].condition = Condition::kDamaged;
  EXPECT_TRUE(none_by_load(damaged));
}

// The coordinator may have forgotten by then who is relieved: some member goes, and numbers are even.
TEST(ReliefTest, WhoeverForgetsWhatMovesByLoadStillComesToRest) {
  SplitMix64 random(11);
  PlanInput cluster = AtRest(4, 32, 0, random);
  const Round round = PlanRound(cluster);
  ASSERT_FALSE(round.moves.empty());
  for (const Move& move : round.moves) Apply(move, cluster.segments[move.segment.v]);
  cluster.by_load = false;
  Settle(cluster, random);
  EXPECT_LE(Spread(CopiesOf(cluster)), 1);
}

}  // namespace
}  // namespace paceline::ring
