#include "libs/ring/planner.h"

#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::ring {

void PrintTo(const Owners& owners, std::ostream* os) {
  *os << owners.primary.v << " {";
  for (ShardId shard : owners.replicas) *os << ' ' << shard.v;
  *os << " }";
}

void PrintTo(const Move& move, std::ostream* os) {
  *os << ToString(move);
}

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = Move::Kind;
using Takes = ShardState::Takes;

Owners On(uint32_t primary, std::initializer_list<uint32_t> replicas = {}) {
  Owners owners{ShardId(primary), {}};
  for (uint32_t id : replicas) owners.replicas.push_back(ShardId(id));
  return owners;
}

// Shards, and each segment's members, the primary first.
PlanInput Cluster(std::initializer_list<uint32_t> shards,
                  std::initializer_list<std::initializer_list<uint32_t>> segments, uint32_t replicas = 1) {
  PlanInput cluster{.segments = {}, .shards = {}, .replicas = replicas, .moves_per_shard = 8};
  for (uint32_t id : shards) cluster.shards.push_back({.shard = ShardId(id)});
  for (const auto& members : segments) {
    SegmentState& state = cluster.segments.emplace_back();
    for (uint32_t id : members) state.members.push_back(ShardId(id));
  }
  return cluster;
}

std::vector<std::string> Moves(const PlanInput& cluster) {
  std::vector<std::string> texts;
  for (const Move& move : PlanRound(cluster).moves) texts.push_back(ToString(move));
  return texts;
}

TEST(PlannerTest, OneShardOwnsEverything) {
  EXPECT_THAT(PlanRound(Cluster({5}, {{}, {}, {}, {}}, 2)).wanted, Each(On(5)));
}

TEST(PlannerTest, FrozenFirstAssignment) {
  // Computed by an implementation in another language. Part of no format, but builds of one cluster must not
  // plan against each other.
  const Round round = PlanRound(Cluster({0, 1, 2}, {{}, {}, {}, {}, {}, {}, {}, {}}));
  EXPECT_THAT(round.wanted, ElementsAre(On(0, {1}), On(2, {1}), On(1, {2}), On(0, {2}), On(2, {0}),
                                        On(1, {0}), On(2, {0}), On(1, {2})));
  EXPECT_THAT(round.moves, IsEmpty());
}

TEST(PlannerTest, AfterFailoversPrimariesAreHandedBackWithoutACopy) {
  EXPECT_THAT(
      Moves(Cluster({1, 2}, {{1, 2}, {1, 2}, {1, 2}, {1, 2}})),
      UnorderedElementsAre(HasSubstr("of shard 1 over to shard 2"), HasSubstr("of shard 1 over to shard 2")));
}

TEST(PlannerTest, AThirdShardHandsOneOnWhereMostAndFewestShareNone) {
  PlanInput cluster = Cluster({1, 2, 3}, {{1, 2}, {1, 2}, {1, 2}, {2, 3}, {2, 3}, {3, 2}});
  for (const int i : {0, 2}) cluster.shards[i].zone = "a";  // so that they never will
  EXPECT_THAT(Moves(cluster), UnorderedElementsAre(HasSubstr("of shard 1 over to shard 2"),
                                                   HasSubstr("of shard 2 over to shard 3")));
}

TEST(PlannerTest, AReplicaInThePrimarysZoneIsReplacedOnceAnotherZoneExists) {
  PlanInput cluster = Cluster({1, 2, 3}, {{1, 2}, {2, 1}});
  for (const int i : {0, 1}) cluster.shards[i].zone = "a";
  cluster.shards[2].zone = "b";
  EXPECT_THAT(Moves(cluster), ElementsAre("recruit shard 3 for segment 0 of shard 1",
                                          "recruit shard 3 for segment 1 of shard 2"));
}

TEST(PlannerTest, SegmentsWithFewestMembersRecruitFirst) {
  PlanInput cluster = Cluster({1, 2, 3, 4}, {{1, 2}, {1}}, 2);
  cluster.moves_per_shard = 1;
  EXPECT_THAT(Moves(cluster), ElementsAre(HasSubstr("for segment 1 of shard 1")));
}

TEST(PlannerTest, ASegmentAllOfWhoseMembersEndRecruitsOneThatStaysAndThenLetsAnEndingOneGo) {
  PlanInput cluster = Cluster({1, 2, 3}, {{1, 2}});
  for (const int i : {0, 1}) cluster.shards[i].takes = Takes::kNothing;
  EXPECT_THAT(Moves(cluster), ElementsAre("recruit shard 3 for segment 0 of shard 1"));
  cluster.segments[0].members.push_back(ShardId(3));
  EXPECT_THAT(Moves(cluster), ElementsAre("drop shard 2 from segment 0 of shard 1"));
}

TEST(PlannerTest, WithoutReplicasASegmentIsCopiedHandedOverAndDropped) {
  PlanInput cluster = Cluster({1, 2}, {{1}, {1}}, 0);
  const Round first = PlanRound(cluster);
  ASSERT_THAT(first.moves, ElementsAre(::testing::Field(&Move::kind, Kind::kRecruit)));
  EXPECT_EQ(first.moves[0].to, ShardId(2));
  SegmentState& moved = cluster.segments[first.moves[0].segment.v];
  moved.under_way = first.moves[0];
  EXPECT_THAT(Moves(cluster), IsEmpty());
  moved.under_way.reset();
  moved.members = {ShardId(1), ShardId(2)};
  EXPECT_THAT(Moves(cluster), ElementsAre(HasSubstr("of shard 1 over to shard 2")));
  moved.members = {ShardId(2), ShardId(1)};
  EXPECT_THAT(Moves(cluster), ElementsAre(HasSubstr("drop shard 1 from segment")));
  moved.members = {ShardId(2)};
  EXPECT_THAT(Moves(cluster), IsEmpty());
}

TEST(PlannerTest, AShardThatDrainsHandsOverWhatOthersHaveAndIsDroppedOnceAnotherReplicaIsThere) {
  PlanInput cluster = Cluster({1, 2, 3}, {{1, 2}});
  cluster.shards[0].takes = Takes::kDrains;
  EXPECT_THAT(Moves(cluster), ElementsAre("recruit shard 3 for segment 0 of shard 1"));
  cluster.segments[0].members.push_back(ShardId(3));
  EXPECT_THAT(Moves(cluster), ElementsAre(HasSubstr("hand segment 0 of shard 1 over to shard")));
  cluster.segments[0].members = {ShardId(2), ShardId(1), ShardId(3)};
  EXPECT_THAT(Moves(cluster), ElementsAre("drop shard 1 from segment 0 of shard 2"));
}

TEST(PlannerTest, ADrainDoesNotWaitForSegmentsThatAreNotSound) {
  PlanInput cluster = Cluster({1, 2, 3}, {{1}, {3}}, 0);
  cluster.shards[0].takes = Takes::kDrains;
  cluster.shards[2].takes = Takes::kNothing;
  cluster.segments[1].condition = SegmentState::Condition::kHeld;
  EXPECT_THAT(Moves(cluster), ElementsAre("recruit shard 2 for segment 0 of shard 1"));
}

TEST(PlannerTest, HeavySegmentsCount) {
  PlanInput cluster = Cluster({1, 2}, {{1, 2}, {2, 1}, {2, 1}});
  cluster.segments[0].load = 2;
  EXPECT_THAT(Moves(cluster), IsEmpty());
  cluster.segments[0].load = 1;
  cluster.segments[1].load = 4;
  EXPECT_THAT(Moves(cluster), ElementsAre("hand segment 2 of shard 2 over to shard 1"));
}

TEST(PlannerTest, Prints) {
  const auto text = [](Kind kind) { return ToString({kind, SegmentId(17), ShardId(1), ShardId(3)}); };
  EXPECT_EQ(text(Kind::kRecruit), "recruit shard 3 for segment 17 of shard 1");
  EXPECT_EQ(text(Kind::kHandOver), "hand segment 17 of shard 1 over to shard 3");
  EXPECT_EQ(text(Kind::kDrop), "drop shard 3 from segment 17 of shard 1");
}

}  // namespace
}  // namespace paceline::ring
