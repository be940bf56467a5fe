// The numbers of changes, and the floor.
#include <set>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;
using ::testing::ElementsAre;

class FanOutTest : public ::testing::Test {
 protected:
  FanOutTest() { cluster_.JoinShards(); }
  // A segment of this shard.
  uint32_t SegmentOf(const std::string& name) {
    uint32_t segment = 0;
    while (!cluster_.shards().at(name).IsPrimaryOf(segment)) ++segment;
    return segment;
  }

  TestCluster cluster_{2};
};

TEST_F(FanOutTest, ALateChangeThatIsStillWantedGetsANewNumber) {
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.shards().Segment(SegmentOf("shard-0")).change_floor = 3;  // it begins empty
  cluster_.shards().Deliver();
  EXPECT_THAT(opening.status(), IsOk());
  EXPECT_EQ(cluster_.shards().at("shard-0").changes.back().number(), 4u);
}

// No call may make a segment forget a change that is under way, nor take it for one that is over.
TEST_F(FanOutTest, TheFloorIsBelowEveryChangeUnderWayAlsoForTheNextCoordinator) {
  FakeShard& shard = cluster_.shards().at("shard-0");
  cluster_.Opened("ctr");
  shard.withheld = {SegmentOf("shard-0")};
  std::vector<Pending<v1::OpenSessionReply>> stuck;
  for (const uint64_t nonce : {8, 9}) stuck.push_back(cluster_.OpenSession("ctr", nonce));
  cluster_.Run(absl::Milliseconds(100));
  const auto numbers = [&shard] {
    std::set<uint64_t> found;
    for (const v1::Change& change : shard.changes) {
      if (change.number() == 0) continue;
      found.insert(change.number());
      EXPECT_EQ(change.floor(), 1u) << change.ShortDebugString();
    }
    return found;
  };
  shard.changes.erase(shard.changes.begin());
  EXPECT_THAT(numbers(), ElementsAre(2u, 3u));
  shard.changes.clear();
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(1));
  EXPECT_THAT(numbers(), ElementsAre(2u, 3u)) << "the next one goes on with them";
}

TEST_F(FanOutTest, ASessionCostsEachShardOneCall) {
  cluster_.Opened("ctr");
  for (const char* name : {"shard-0", "shard-1"}) EXPECT_EQ(cluster_.shards().at(name).changes.size(), 1u);
}

TEST_F(FanOutTest, OnlyShardsThatOweSegmentsAreAskedAgain) {
  FakeShard& owes = cluster_.shards().at("shard-0");
  owes.withheld = {SegmentOf("shard-0")};
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.Run(absl::Milliseconds(500));
  EXPECT_FALSE(opening.answered());
  EXPECT_GT(owes.changes.size(), 1u);
  EXPECT_EQ(cluster_.shards().at("shard-1").changes.size(), 1u);
  owes.withheld.clear();
  cluster_.Run(absl::Milliseconds(500));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST(FanOutMoveTest, ASegmentThatMovesMeanwhileIsAskedForThere) {
  TestCluster cluster(2, {.replicas = 1, .ring_bits = 3});
  cluster.JoinShards();
  FakeShard& from = cluster.shards().at("shard-0");
  uint32_t segment = 0;
  while (!from.IsPrimaryOf(segment)) ++segment;
  from.withheld = {segment};
  const auto opening = cluster.OpenSession("ctr", 7);
  cluster.Run(absl::Milliseconds(100));
  EXPECT_FALSE(opening.answered());
  v1::ConfigWish wish;
  wish.set_segment(segment);
  wish.set_epoch(1);
  wish.set_kind(v1::ConfigWish::SWAP);
  *wish.add_members() = cluster.shards().at("shard-1").member();
  const auto moved = cluster.shards().Wish(cluster.core(), "shard-0", {wish});
  ASSERT_THAT(moved, IsOk());
  ASSERT_EQ(moved->segments(0).why_not(), "");
  cluster.Run(absl::Milliseconds(500));
  EXPECT_THAT(opening.status(), IsOk());
  EXPECT_EQ(cluster.shards().at("shard-1").changes.size(), 2u);
}

TEST_F(FanOutTest, AnAnswerAboutSegmentsThatAreNotThereChangesNothing) {
  v1::ChangeReply odd;
  odd.add_committed(8);
  odd.add_committed(UINT32_MAX);
  odd.set_map_version(1);
  cluster_.shards().at("shard-0").scripted = {odd};
  const auto opening = cluster_.OpenSession("ctr", 7);
  cluster_.shards().Deliver();
  EXPECT_FALSE(opening.answered());
  cluster_.Run(absl::Milliseconds(500));
  EXPECT_THAT(opening.status(), IsOk());
}

TEST_F(FanOutTest, MoreChangesThanCallsTakeTurns) {
  std::vector<Pending<v1::OpenSessionReply>> opening;
  for (uint64_t nonce = 1; nonce <= 150; ++nonce) opening.push_back(cluster_.OpenSession("ctr", nonce));
  EXPECT_EQ(cluster_.shards().CallsUnderWay(), 2 * 64u);
  cluster_.shards().Deliver();
  for (const auto& pending : opening) EXPECT_THAT(pending.status(), IsOk());
}

}  // namespace
}  // namespace paceline::coordinator
