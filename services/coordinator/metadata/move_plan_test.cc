#include "services/coordinator/metadata/move_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "libs/world/random.h"
#include "services/coordinator/metadata/config_wishes.h"
#include "services/coordinator/metadata/map_plan.h"

namespace paceline::coordinator {
namespace {

using ::testing::IsEmpty;

v1::Member MemberOf(uint32_t shard, uint64_t incarnation = 1) {
  v1::Member member;
  member.set_shard(shard);
  member.set_incarnation(incarnation);
  return member;
}

// A map of `shards` shards; each segment's members, primary first.
v1::Map MapOf(uint32_t shards, const std::vector<std::vector<uint32_t>>& segments) {
  v1::Map map;
  map.set_version(1);
  for (uint32_t s = 0; s < shards; ++s) {
    v1::ShardInfo& info = *map.add_shards();
    info.set_shard(s);
    info.set_incarnation(1);
  }
  for (const auto& members : segments) {
    v1::SegmentConfig& config = *map.add_segments();
    config.set_epoch(1);
    *config.mutable_primary() = MemberOf(members[0]);
    for (size_t i = 1; i < members.size(); ++i) *config.add_replicas() = MemberOf(members[i]);
  }
  return map;
}

std::set<uint32_t> First(uint32_t shards) {
  std::set<uint32_t> set;
  for (uint32_t s = 0; s < shards; ++s) set.insert(s);
  return set;
}

// What the segment has once the move is done.
void Apply(const Move& move, v1::Map& map) {
  v1::SegmentConfig& config = *map.mutable_segments(static_cast<int>(move.segment));
  ASSERT_TRUE(Same(config.primary(), move.primary));
  config.set_epoch(config.epoch() + 1);
  if (move.kind == Move::Kind::kRecruit) {
    *config.add_replicas() = move.to;
    return;
  }
  auto& replicas = *config.mutable_replicas();
  const auto it = std::ranges::find_if(replicas, [&](const auto& r) { return Same(r, move.to); });
  ASSERT_NE(it, replicas.end());
  if (move.kind == Move::Kind::kHandOver) {
    it->Swap(config.mutable_primary());
  } else {
    replicas.erase(it);
  }
}

std::string Text(const Move& move) {
  const char* kinds[] = {"recruit", "hand over", "drop"};
  return std::string(kinds[static_cast<int>(move.kind)]) + " segment " + std::to_string(move.segment) +
         ": shard " + std::to_string(move.primary.shard()) + " -> " + std::to_string(move.to.shard());
}

std::vector<std::string> Texts(const std::vector<Move>& moves) {
  std::vector<std::string> texts;
  for (const Move& move : moves) texts.push_back(Text(move));
  return texts;
}

TEST(MovePlanTest, NothingIsDoneWhereNothingIsWanted) {
  const v1::Map map = MapOf(3, {{0, 1}, {1, 2}, {2, 0}});
  EXPECT_THAT(PlanMoves({.map = map, .replicas = 1, .alive = First(3)}), IsEmpty());
  const v1::Map alone = MapOf(3, {{0}, {0}, {0}, {0}});
  EXPECT_THAT(PlanMoves({.map = alone, .replicas = 0, .alive = First(3)}), IsEmpty())
      << "without replicas there is nobody to hand over to";
}

TEST(MovePlanTest, ASegmentThatLacksAReplicaRecruitsTheLeastLoadedShard) {
  const v1::Map map = MapOf(4, {{0}, {1, 2}, {2, 1}});
  EXPECT_THAT(Texts(PlanMoves({.map = map, .replicas = 1, .alive = First(4)})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 3"));
  EXPECT_THAT(Texts(PlanMoves({.map = map, .replicas = 1, .alive = {0, 1, 2}})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 1"))
      << "of those that live";
  EXPECT_THAT(Texts(PlanMoves({.map = map, .replicas = 1, .alive = First(4), .failed = {{0, 3}}})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 1"))
      << "where it failed it is tried last";
  EXPECT_THAT(PlanMoves({.map = map, .replicas = 1, .alive = {1, 2, 3}}), IsEmpty())
      << "its primary is silent";
  EXPECT_THAT(PlanMoves({.map = map, .replicas = 1, .alive = First(4), .held = {0}}), IsEmpty());
}

TEST(MovePlanTest, AnotherZoneIsPreferred) {
  v1::Map map = MapOf(3, {{0}});
  for (const int s : {0, 1}) map.mutable_shards(s)->set_zone("a");
  map.mutable_shards(2)->set_zone("b");
  EXPECT_THAT(Texts(PlanMoves({.map = map, .replicas = 1, .alive = First(3)})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 2"));
}

TEST(MovePlanTest, AtMostSoManyMovesAreUnderWayPerShard) {
  const v1::Map map = MapOf(2, std::vector<std::vector<uint32_t>>(10, {0}));
  MoveInputs inputs{.map = map, .replicas = 1, .alive = First(2), .moves_per_shard = 3};
  const std::vector<Move> moves = PlanMoves(inputs);
  EXPECT_EQ(moves.size(), 3u);
  for (const Move& move : moves) inputs.under_way[move.segment] = move;
  EXPECT_THAT(PlanMoves(inputs), IsEmpty());
  inputs.under_way.erase(moves[1].segment);
  EXPECT_THAT(Texts(PlanMoves(inputs)), ::testing::ElementsAre(Text(moves[1])));
}

TEST(MovePlanTest, PrimariesAreSpreadOnlyOnceNoSegmentLacksAReplica) {
  const v1::Map lacking = MapOf(3, {{0, 1}, {0, 1}, {0, 1}, {0}});
  for (const Move& move : PlanMoves({.map = lacking, .replicas = 1, .alive = First(3)})) {
    EXPECT_EQ(move.kind, Move::Kind::kRecruit) << Text(move);
  }
  const v1::Map complete = MapOf(2, {{0, 1}, {0, 1}, {0, 1}, {0, 1}});
  EXPECT_THAT(
      Texts(PlanMoves({.map = complete, .replicas = 1, .alive = First(2)})),
      ::testing::ElementsAre("hand over segment 0: shard 0 -> 1", "hand over segment 1: shard 0 -> 1"));
  EXPECT_THAT(PlanMoves({.map = complete, .replicas = 1, .alive = {0}}), IsEmpty()) << "a member is silent";
  EXPECT_THAT(PlanMoves({.map = complete, .replicas = 1, .alive = First(2), .leaving = {1}}), IsEmpty());
  const v1::Map odd = MapOf(2, {{0, 1}, {0, 1}, {1, 0}});
  EXPECT_THAT(PlanMoves({.map = odd, .replicas = 1, .alive = First(2)}), IsEmpty()) << "as even as can be";
}

TEST(MovePlanTest, SurplusIsDroppedFromTheFullestShard) {
  const v1::Map map = MapOf(3, {{0, 1, 2}, {1, 2}, {2, 0}, {0, 2}});
  EXPECT_EQ(Texts(PlanMoves({.map = map, .replicas = 1, .alive = First(3)})).front(),
            "drop segment 0: shard 0 -> 2");
  // One shard is silent: what is enough for the others is not too much.
  EXPECT_THAT(PlanMoves({.map = map, .replicas = 2, .alive = {0, 1}}), IsEmpty());
}

// From any map, doing what is planned, some of it late, ends, and ends well.
TEST(MovePlanTest, EveryClusterComesToRest) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    world::SplitMix64 random(seed);
    const auto pick = [&random](uint32_t n) { return static_cast<uint32_t>(world::Uniform(random, n)); };
    const uint32_t shards = 2 + pick(6);
    const uint32_t replicas = pick(4);
    const uint32_t segments = uint32_t{1} << pick(6);
    std::vector<std::vector<uint32_t>> members(segments);
    // Some shards have only just joined.
    const uint32_t old = 1 + pick(shards);
    for (auto& of_segment : members) {
      std::vector<uint32_t> all;
      for (uint32_t s = 0; s < old; ++s) all.push_back(s);
      for (uint32_t i = old; i > 1; --i) std::swap(all[i - 1], all[pick(i)]);
      all.resize(1 + std::min(pick(replicas + 2), old - 1));
      of_segment = all;
    }
    v1::Map map = MapOf(shards, members);
    std::map<uint32_t, Move> under_way;
    uint32_t done = 0;
    while (true) {
      const MoveInputs inputs{.map = map,
                              .replicas = replicas,
                              .alive = First(shards),
                              .under_way = under_way,
                              .moves_per_shard = 1 + pick(8)};
      const std::vector<Move> moves = PlanMoves(inputs);
      if (moves.empty() && under_way.empty()) break;
      for (const Move& move : moves) {
        ASSERT_FALSE(under_way.contains(move.segment)) << Text(move);
        if (move.kind == Move::Kind::kDrop) {
          Apply(move, map);
        } else {
          under_way[move.segment] = move;
        }
      }
      if (!under_way.empty()) {
        const auto it = std::next(under_way.begin(), pick(static_cast<uint32_t>(under_way.size())));
        Apply(it->second, map);
        under_way.erase(it);
      }
      ASSERT_LT(++done, segments * (shards + 4) * 4) << "seed " << seed;
    }
    std::map<uint32_t, int> primaries;
    std::map<uint32_t, int> loads;
    for (const v1::SegmentConfig& config : map.segments()) {
      ASSERT_EQ(static_cast<uint32_t>(config.replicas_size()), std::min(replicas, shards - 1))
          << "seed " << seed;
      std::set<uint32_t> distinct{config.primary().shard()};
      for (const v1::Member& replica : config.replicas()) distinct.insert(replica.shard());
      ASSERT_EQ(distinct.size(), static_cast<size_t>(config.replicas_size()) + 1);
      primaries[config.primary().shard()] += 1;
      for (const uint32_t shard : distinct) loads[shard] += 1;
    }
    if (replicas == 0) continue;
    const auto spread = [shards](std::map<uint32_t, int>& counts) {
      int fewest = counts[0];
      int most = counts[0];
      for (uint32_t s = 0; s < shards; ++s) {
        fewest = std::min(fewest, counts[s]);
        most = std::max(most, counts[s]);
      }
      return most - fewest;
    };
    EXPECT_LE(spread(loads), 1) << "segments by shard, seed " << seed;
    EXPECT_LE(spread(primaries), 2) << "primaries by shard, seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::coordinator
