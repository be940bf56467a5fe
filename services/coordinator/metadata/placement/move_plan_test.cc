#include "services/coordinator/metadata/placement/move_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

std::string Text(const MemberMove& move) {
  const char* kinds[] = {"recruit", "hand over", "drop"};
  return std::string(kinds[static_cast<int>(move.kind)]) + " segment " + std::to_string(move.segment) +
         ": shard " + std::to_string(move.primary.shard()) + " -> " + std::to_string(move.to.shard());
}

std::vector<std::string> Texts(const std::vector<MemberMove>& moves) {
  std::vector<std::string> texts;
  for (const MemberMove& move : moves) texts.push_back(Text(move));
  return texts;
}

// With room for more moves than any of the clusters below needs.
std::vector<MemberMove> MovesOf(MoveInputs inputs) {
  inputs.moves_per_shard = 8;
  return PlanMoves(inputs);
}

TEST(MovePlanTest, NothingMovesWhereNothingIsWanted) {
  const v1::Map map = MapOf(3, {{0, 1}, {1, 2}, {2, 0}});
  EXPECT_THAT(MovesOf({.map = map, .replicas = 1, .alive = First(3)}), IsEmpty());
  const v1::Map alone = MapOf(3, {{0}, {1}, {2}, {0}});
  EXPECT_THAT(MovesOf({.map = alone, .replicas = 0, .alive = First(3)}), IsEmpty());
}

TEST(MovePlanTest, WithoutReplicasALateShardGetsItsShare) {
  const v1::Map map = MapOf(2, {{0}, {0}, {0}, {0}});
  const std::vector<MemberMove> moves = MovesOf({.map = map, .replicas = 0, .alive = First(2)});
  EXPECT_THAT(Texts(moves), ::testing::ElementsAre(::testing::EndsWith(": shard 0 -> 1"),
                                                   ::testing::EndsWith(": shard 0 -> 1")));
  EXPECT_THAT(MovesOf({.map = map, .replicas = 0, .alive = {0}}), IsEmpty()) << "it is silent";
}

TEST(MovePlanTest, WhatDrainsMovesAway) {
  const v1::Map map = MapOf(3, {{0}, {1}, {2}});
  EXPECT_THAT(Texts(MovesOf({.map = map, .replicas = 0, .alive = First(3), .draining = {1}})),
              ::testing::ElementsAre(::testing::StartsWith("recruit segment 1: shard 1 -> ")));
  EXPECT_THAT(MovesOf({.map = map, .replicas = 0, .alive = {0, 2}, .draining = {1}}), IsEmpty())
      << "it does not live";
}

TEST(MovePlanTest, ASegmentThatLacksAReplicaRecruitsTheLeastLoadedShard) {
  const v1::Map map = MapOf(4, {{0}, {1, 2}, {2, 1}});
  EXPECT_THAT(Texts(MovesOf({.map = map, .replicas = 1, .alive = First(4)})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 3"));
  EXPECT_THAT(Texts(MovesOf({.map = map, .replicas = 1, .alive = {0, 1, 2}})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 1"))
      << "of those that live";
  EXPECT_THAT(Texts(MovesOf({.map = map, .replicas = 1, .alive = First(4), .failed = {{0, 3}}})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 1"))
      << "where it failed it is tried last";
  EXPECT_THAT(MovesOf({.map = map, .replicas = 1, .alive = {1, 2, 3}}), IsEmpty()) << "its primary is silent";
  EXPECT_THAT(MovesOf({.map = map, .replicas = 1, .alive = First(4), .held = {0}}), IsEmpty());
}

TEST(MovePlanTest, AnotherZoneIsPreferred) {
  v1::Map map = MapOf(3, {{0}});
  for (const int s : {0, 1}) map.mutable_shards(s)->set_zone("a");
  map.mutable_shards(2)->set_zone("b");
  EXPECT_THAT(Texts(MovesOf({.map = map, .replicas = 1, .alive = First(3)})),
              ::testing::ElementsAre("recruit segment 0: shard 0 -> 2"));
}

TEST(MovePlanTest, MovesUnderWayPerShardAreBounded) {
  const v1::Map map = MapOf(2, std::vector<std::vector<uint32_t>>(10, {0}));
  MoveInputs inputs{.map = map, .replicas = 1, .alive = First(2), .moves_per_shard = 3};
  const std::vector<MemberMove> moves = PlanMoves(inputs);
  EXPECT_EQ(moves.size(), 3u);
  for (const MemberMove& move : moves) inputs.under_way[move.segment] = move;
  EXPECT_THAT(PlanMoves(inputs), IsEmpty());
  inputs.under_way.erase(moves[1].segment);
  EXPECT_THAT(Texts(PlanMoves(inputs)), ::testing::ElementsAre(Text(moves[1])));
}

TEST(MovePlanTest, PrimariesAreSpreadOnlyOnceNoSegmentLacksAReplica) {
  const v1::Map lacking = MapOf(3, {{0, 1}, {0, 1}, {0, 1}, {0}});
  for (const MemberMove& move : MovesOf({.map = lacking, .replicas = 1, .alive = First(3)})) {
    EXPECT_EQ(move.kind, MemberMove::Kind::kRecruit) << Text(move);
  }
  const v1::Map complete = MapOf(2, {{0, 1}, {0, 1}, {0, 1}, {0, 1}});
  EXPECT_THAT(
      Texts(MovesOf({.map = complete, .replicas = 1, .alive = First(2)})),
      ::testing::ElementsAre(::testing::HasSubstr("shard 0 -> 1"), ::testing::HasSubstr("shard 0 -> 1")));
  EXPECT_THAT(MovesOf({.map = complete, .replicas = 1, .alive = {0}}), IsEmpty()) << "a member is silent";
  EXPECT_THAT(MovesOf({.map = complete, .replicas = 1, .alive = First(2), .leaving = {1}}), IsEmpty());
  const v1::Map odd = MapOf(2, {{0, 1}, {0, 1}, {1, 0}});
  EXPECT_THAT(MovesOf({.map = odd, .replicas = 1, .alive = First(2)}), IsEmpty()) << "as even as can be";
}

// Members are starts of shards: one that was started again since does not live, though its shard does.
TEST(MovePlanTest, AnEarlierStartDoesNotLive) {
  v1::Map map = MapOf(3, {{0, 1}, {0, 1}, {0, 1}, {0, 1}});
  map.mutable_shards(1)->set_incarnation(2);
  EXPECT_THAT(MovesOf({.map = map, .replicas = 1, .alive = First(3)}), IsEmpty());
  map.mutable_segments(2)->clear_replicas();
  const std::vector<MemberMove> moves = MovesOf({.map = map, .replicas = 1, .alive = {0, 1}});
  ASSERT_THAT(Texts(moves), ::testing::ElementsAre("recruit segment 2: shard 0 -> 1"));
  EXPECT_EQ(moves[0].to.incarnation(), 2u);
  map.mutable_shards(0)->set_incarnation(2);
  EXPECT_THAT(MovesOf({.map = map, .replicas = 1, .alive = First(3)}), IsEmpty());
}

TEST(MovePlanTest, SurplusIsDroppedFromTheFullestShard) {
  const v1::Map map = MapOf(3, {{0, 1, 2}, {1, 2}, {2, 0}, {0, 2}});
  EXPECT_EQ(Texts(MovesOf({.map = map, .replicas = 1, .alive = First(3)})).front(),
            "drop segment 0: shard 0 -> 2");
  // One shard is silent: what is enough for the others is not too much.
  EXPECT_THAT(MovesOf({.map = map, .replicas = 2, .alive = {0, 1}}), IsEmpty());
}

}  // namespace
}  // namespace paceline::coordinator
