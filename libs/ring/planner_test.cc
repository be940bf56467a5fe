#include "libs/ring/planner.h"

#include <ostream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::ring {

void PrintTo(const Owners& owners, std::ostream* os) {
  *os << owners.primary.v << " {";
  for (ShardId shard : owners.replicas) {
    *os << ' ' << shard.v;
  }
  *os << " }";
}

void PrintTo(const Move& move, std::ostream* os) {
  *os << ToString(move);
}

namespace {

using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Kind = Move::Kind;

std::vector<Candidate> Shards(std::initializer_list<uint32_t> ids) {
  std::vector<Candidate> shards;
  for (uint32_t id : ids) {
    shards.push_back({ShardId(id), ""});
  }
  return shards;
}

Owners On(uint32_t primary, std::initializer_list<uint32_t> replicas = {}) {
  Owners owners{ShardId(primary), {}};
  for (uint32_t id : replicas) {
    owners.replicas.push_back(ShardId(id));
  }
  return owners;
}

Assignment Plan(const std::optional<Assignment>& previous, const std::vector<Candidate>& shards, int replicas,
                int ring_bits) {
  return Assign(previous, shards, replicas, ring_bits).value();
}

TEST(AssignTest, OneShardOwnsEverything) {
  EXPECT_THAT(Assign(std::nullopt, Shards({5}), 2, 3), IsOkAndHolds(Each(On(5))));
}

TEST(AssignTest, FrozenFirstAssignment) {
  // Computed by an implementation in another language. Part of no format, but builds of one cluster must not
  // plan against each other.
  EXPECT_THAT(Plan(std::nullopt, Shards({0, 1, 2}), 1, 3),
              ElementsAre(On(0, {1}), On(1, {0}), On(2, {0}), On(2, {1}), On(0, {2}), On(2, {1}), On(0, {2}),
                          On(1, {2})));
}

TEST(AssignTest, TheOrderOfCandidatesDoesNotMatter) {
  EXPECT_EQ(Plan(std::nullopt, Shards({3, 1, 2}), 1, 6), Plan(std::nullopt, Shards({1, 2, 3}), 1, 6));
}

TEST(AssignTest, APrimaryThatLeavesIsFollowedByItsReplica) {
  const Assignment before{On(1, {2}), On(2, {3}), On(3, {1}), On(3, {2})};
  const Assignment after = Plan(before, Shards({1, 2}), 1, 2);
  EXPECT_THAT(after, ElementsAre(On(1, {2}), On(2, {1}), On(1, {2}), On(2, {1})));
}

TEST(AssignTest, AfterFailoversHandsBackToReplicasWithoutACopy) {
  const Assignment before{On(1, {2}), On(1, {2}), On(1, {2}), On(1, {2})};
  const Assignment after = Plan(before, Shards({1, 2}), 1, 2);
  int first = 0;
  for (const Owners& owners : after) {
    first += owners.primary == ShardId(1) ? 1 : 0;
    EXPECT_EQ(owners.replicas.size(), 1u);
  }
  EXPECT_EQ(first, 2);
  for (const Move& move : PlanMoves(before, after)) {
    EXPECT_EQ(move.kind, Kind::kHandOver);
  }
}

TEST(AssignTest, MovesWhatAReplicaCanTakeOverAndKeepsTheFormerPrimaryAsReplica) {
  const std::vector<Candidate> shards = Shards({1, 2, 3, 4});
  const Assignment balanced = Plan(std::nullopt, shards, 1, 6);
  Assignment after_failovers = balanced;
  int promoted = 0;
  for (Owners& owners : after_failovers) {
    if (owners.primary == ShardId(1) && promoted < 8) {
      std::swap(owners.primary, owners.replicas[0]);
      ++promoted;
    }
  }
  const Assignment mended = Plan(after_failovers, shards, 1, 6);
  const std::vector<Move> moves = PlanMoves(after_failovers, mended);
  EXPECT_EQ(moves.size(), 8u);
  for (const Move& move : moves) {
    EXPECT_EQ(move.kind, Kind::kHandOver) << ToString(move);
    EXPECT_EQ(move.to, ShardId(1)) << ToString(move);
  }
}

TEST(AssignTest, ReplicasAvoidThePrimarysZone) {
  const std::vector<Candidate> shards{
      {ShardId(1), "a"}, {ShardId(2), "a"}, {ShardId(3), "b"}, {ShardId(4), "b"}};
  for (const Owners& owners : Plan(std::nullopt, shards, 1, 6)) {
    EXPECT_NE(owners.primary.v <= 2, owners.replicas[0].v <= 2);
  }
}

TEST(AssignTest, AReplicaInThePrimarysZoneMovesOnceAnotherZoneExists) {
  std::vector<Candidate> shards{{ShardId(1), "a"}, {ShardId(2), "a"}};
  const Assignment before = Plan(std::nullopt, shards, 1, 4);
  shards.push_back({ShardId(3), "b"});
  for (const Owners& owners : Plan(before, shards, 1, 4)) {
    EXPECT_TRUE(owners.primary == ShardId(3) || owners.replicas[0] == ShardId(3));
  }
}

TEST(AssignTest, MoreReplicasThanShardsMeansAsManyAsThereAre) {
  for (const Owners& owners : Plan(std::nullopt, Shards({1, 2, 3}), 5, 4)) {
    EXPECT_EQ(owners.replicas.size(), 2u);
  }
}

TEST(AssignTest, FewerReplicasWantedDropsWithoutACopy) {
  const Assignment before = Plan(std::nullopt, Shards({1, 2, 3, 4}), 2, 6);
  const Assignment after = Plan(before, Shards({1, 2, 3, 4}), 1, 6);
  for (const Move& move : PlanMoves(before, after)) {
    EXPECT_EQ(move.kind, Kind::kDrop) << ToString(move);
  }
}

TEST(AssignTest, RefusesWhatItCannotPlan) {
  EXPECT_THAT(Assign(std::nullopt, {}, 1, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no candidates")));
  EXPECT_THAT(Assign(std::nullopt, Shards({4, 4}), 1, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard 4 is a candidate twice")));
  EXPECT_THAT(Assign(std::nullopt, Shards({4}), -1, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1 replicas")));
  EXPECT_THAT(Assign(std::nullopt, Shards({4}), 0, 17),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ring_bits is 17")));
  EXPECT_THAT(Assign(Assignment{On(4)}, Shards({4}), 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 segments; expected 2")));
}

TEST(AssignmentOfTest, LeavesIncarnationsOut) {
  const auto member = [](uint32_t shard) { return Member{ShardId(shard), Incarnation(shard)}; };
  std::vector<ShardInfo> shards;
  for (uint32_t id : {1, 2, 3}) {
    shards.push_back({ShardId(id), absl::StrCat("s", id), "h:1", Incarnation(id)});
  }
  const auto map = SegmentMap::Create(
      MapVersion(1), 1, {{Epoch(1), member(2), {member(3), member(1)}}, {Epoch(1), member(1), {}}}, shards);
  EXPECT_THAT(AssignmentOf(map.value()), ElementsAre(On(2, {3, 1}), On(1)));
}

TEST(PlanMovesTest, NothingToDo) {
  const Assignment same{On(1, {2, 3}), On(2)};
  EXPECT_THAT(PlanMoves(same, same), IsEmpty());
  EXPECT_THAT(PlanMoves({On(1, {2, 3})}, {On(1, {3, 2})}), IsEmpty()) << "replicas have no order";
}

TEST(PlanMovesTest, RecruitsThenHandsOverThenDrops) {
  EXPECT_THAT(PlanMoves({On(1, {2}), On(5)}, {On(4, {3}), On(5)}),
              ElementsAre(Move{Kind::kRecruit, SegmentId(0), ShardId(1), ShardId(3)},
                          Move{Kind::kRecruit, SegmentId(0), ShardId(1), ShardId(4)},
                          Move{Kind::kHandOver, SegmentId(0), ShardId(1), ShardId(4)},
                          Move{Kind::kDrop, SegmentId(0), ShardId(1), ShardId(1)},
                          Move{Kind::kDrop, SegmentId(0), ShardId(2), ShardId(2)}));
}

TEST(PlanMovesTest, SwappingRolesIsOneMove) {
  EXPECT_THAT(PlanMoves({On(1, {2})}, {On(2, {1})}),
              ElementsAre(Move{Kind::kHandOver, SegmentId(0), ShardId(1), ShardId(2)}));
}

TEST(PlanMovesTest, Prints) {
  EXPECT_EQ(ToString(Move{Kind::kRecruit, SegmentId(17), ShardId(1), ShardId(3)}),
            "recruit shard 3 for segment 17 from shard 1");
  EXPECT_EQ(ToString(Move{Kind::kHandOver, SegmentId(17), ShardId(1), ShardId(3)}),
            "hand segment 17 over from shard 1 to shard 3");
  EXPECT_EQ(ToString(Move{Kind::kDrop, SegmentId(17), ShardId(1), ShardId(1)}),
            "drop shard 1 from segment 17");
}

}  // namespace
}  // namespace paceline::ring
