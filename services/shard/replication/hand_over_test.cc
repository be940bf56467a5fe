// Planned hand-overs: who answers when, and that no step waits for a visit.
#include "services/shard/replication/replication_state.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class HandOverTest : public ReplicationTest {};

TEST_F(HandOverTest, AHandOverNeedsNoWaitForLeases) {
  for (PartNumber n = 1; n <= 3; ++n) Push(a, n, 1);
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  const auto refusal = Push(a, 4, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::UNAVAILABLE);
  Deliver();
  ASSERT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1))
      << "asked at the replica's answer, not at the next visit";
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2, 3));
  EXPECT_FALSE(a.host.primary()->MayAnswer()) << "never again in this epoch";
  Configure(2, 1, {0});
  Deliver();
  EXPECT_EQ(a.host.role(), SegmentHost::Role::kReplica);
  EXPECT_TRUE(b.host.primary()->MayAnswer()) << "it asks for the lease at once, not at its next visit";
  EXPECT_FALSE(Push(b, 4, 1));
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(a.host.follower()->segment()->Hash(), b.host.primary()->segment().Hash());
}

// Its first frames are not answered, for nobody has named it there.
TEST_F(HandOverTest, ANewPrimaryIsLentTimeOnceTheOtherKnowsOfIt) {
  Push(a, 1, 1);
  Deliver();
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  Deliver();
  ConfigureAt(b, 2, 1, {0});
  Deliver();
  EXPECT_FALSE(b.host.primary()->MayAnswer());
  ConfigureAt(a, 2, 1, {0});
  Deliver();
  EXPECT_TRUE(b.host.primary()->MayAnswer());
  EXPECT_FALSE(Push(b, 2, 1));
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2));
}

TEST_F(HandOverTest, AReplicaIsLinkedWithTheOthersBeforeItIsPrimary) {
  net.linked.clear();
  Configure(2, 0, {1, 2});
  EXPECT_TRUE(net.linked.contains({b.self, a.self}));
  EXPECT_TRUE(net.linked.contains({b.self, c.self})) << "its first record waits for this one too";
}

TEST_F(HandOverTest, AHandOverWithoutAnAnswerIsEndedByANewEpoch) {
  Push(a, 1, 1);
  a.host.HandOver(Epoch(1), b.self);
  Pass(absl::Milliseconds(650));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::KEEP).empty());
  EXPECT_FALSE(a.host.primary()->MayAnswer());
  Configure(2, 0, {1});
  Pass(absl::Milliseconds(50));
  EXPECT_TRUE(a.host.primary()->MayAnswer());
  EXPECT_FALSE(Push(a, 2, 1));
}

// Reads write nothing, so they are served as long as nobody else may be primary.
TEST_F(HandOverTest, ReadsAreServedUntilTheSwapIsAskedFor) {
  Push(a, 1, 1);
  Deliver();
  Push(a, 2, 1);
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  const auto before = Pull(a);
  EXPECT_EQ(before->certificates.size(), 1u);
  EXPECT_TRUE(Push(a, 3, 1)) << "the replica would never hold everything";
  Deliver();
  ASSERT_THAT(Wishes(a, v1::ConfigWish::SWAP), SizeIs(1));
  const auto after = Pull(a);
  EXPECT_TRUE(after->certificates.empty());
  ASSERT_THAT(after->refusals, SizeIs(1));
  EXPECT_EQ(after->refusals[0].reason(), v1::Refusal::UNAVAILABLE);
}

// Another one that takes its place does not know what it has shown, until its own first record is committed.
TEST_F(HandOverTest, APrimaryThatStaysServesReadsWhileMembersChange) {
  Push(a, 1, 1);
  Deliver();
  ConfigureAt(a, 2, 0, {1});
  ASSERT_TRUE(a.host.primary()->MayAnswer()) << "what was lent in the epoch before counts";
  ASSERT_LT(a.host.primary()->replicas().committed(), a.host.primary()->segment().version());
  EXPECT_EQ(Pull(a)->certificates.size(), 1u);
  ConfigureAt(b, 2, 0, {1});
  Deliver();
  Configure(3, 1, {0});
  EXPECT_TRUE(Pull(b)->certificates.empty()) << "it waits";
  Deliver();
  EXPECT_EQ(Pull(b)->certificates.size(), 1u);
}

// The record that begins the epoch may wait for disks.
TEST_F(HandOverTest, ReadsAreServedOnceTheMembersHoldWhatTheEpochBeganWith) {
  Push(a, 1, 1);
  Deliver();
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  Deliver();
  net.held_up = [](const auto& frame) { return frame.epoch() == 2 && frame.records() > 0; };
  ConfigureAt(a, 2, 1, {0});
  ConfigureAt(b, 2, 1, {0});
  EXPECT_TRUE(Pull(b)->certificates.empty()) << "it does not know yet what the other one holds";
  Deliver();
  const log::Primary& primary = *b.host.primary();
  ASSERT_LT(primary.replicas().committed(), primary.segment().version());
  const auto answers = Pull(b);
  ASSERT_THAT(answers->certificates, SizeIs(1));
  EXPECT_EQ(answers->certificates[0].own, 1u);
  EXPECT_FALSE(Push(b, 2, 1));
  EXPECT_THAT(acks->numbers, ElementsAre(1)) << "parts are acknowledged by a committed record only";
}

TEST_F(HandOverTest, AHandOverThatIsAskedForAgainCountsOnce) {
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  ASSERT_TRUE(a.host.HandOver(Epoch(1), b.self));
  EXPECT_FALSE(a.host.HandOver(Epoch(1), c.self)) << "it is no replica";
  EXPECT_EQ(ReplicationOf(a.host).events.hand_overs, 1u);
  EXPECT_FALSE(b.host.HandOver(Epoch(1), a.self));
  EXPECT_EQ(ReplicationOf(b.host).events.hand_overs, 0u);
}

}  // namespace
}  // namespace paceline::shard
