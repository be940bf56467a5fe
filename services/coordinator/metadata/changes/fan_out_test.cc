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

}  // namespace
}  // namespace paceline::coordinator
