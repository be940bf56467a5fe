// The members of one segment: who acknowledges what, who may answer, who takes over and with what.
#include "libs/log/record_codec.h"
#include "services/shard/replication/replication_state.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ReplicationTest, APartIsAcknowledgedWhenTheReplicaHoldsIt) {
  EXPECT_FALSE(Push(a, 1, 1));
  EXPECT_THAT(acks->numbers, IsEmpty());
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  EXPECT_EQ(b.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
  EXPECT_GT(b.budget->bytes, 0);
}

TEST_F(ReplicationTest, ARepeatedPartIsAcknowledgedNoSoonerThanItsRecord) {
  Push(a, 1, 1);
  Push(a, 1, 1);
  EXPECT_THAT(acks->numbers, IsEmpty());
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 1));
}

TEST_F(ReplicationTest, APrimaryWithoutItsReplicaSaysNothing) {
  net.cut.emplace(a.self, b.self);
  Pass(absl::Milliseconds(480));
  EXPECT_FALSE(a.host.primary()->MayAnswer());
  EXPECT_FALSE(Push(a, 1, 1)) << "it goes on taking parts";
  const auto gap = Push(a, 3, 1);
  ASSERT_TRUE(gap);
  EXPECT_EQ(gap->reason(), v1::Refusal::UNAVAILABLE) << "what it misses another one may have";
  EXPECT_THAT(gap->message(), HasSubstr("shard 1"));
  const auto answers = Pull(a);
  EXPECT_THAT(answers->certificates, IsEmpty());
  EXPECT_THAT(acks->numbers, IsEmpty());
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::DROP).empty());

  Configure(2, 0, {});
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  EXPECT_THAT(answers->certificates, SizeIs(1));
  EXPECT_EQ(answers->waits[0].cause, log::Wait::Cause::kReplication);
}

TEST_F(ReplicationTest, ASilentPrimaryIsReplacedAndNothingAcknowledgedIsLostOrDoubled) {
  Push(a, 1, 1);
  Push(a, 2, 2);
  Deliver();
  ASSERT_THAT(acks->numbers, ElementsAre(1, 2));
  EXPECT_FALSE(Fence(b, 2, /*only_if_silent=*/true)) << "it has been heard in time";
  CutOff(a);
  Pass(absl::Milliseconds(450));
  EXPECT_THAT(Wishes(b, v1::ConfigWish::PROMOTE), IsEmpty()) << "what it has lent is not over for certain";
  EXPECT_FALSE(a.host.primary()->MayAnswer());
  Pass(absl::Milliseconds(150));
  ASSERT_FALSE(Wishes(b, v1::ConfigWish::PROMOTE).empty());
  EXPECT_EQ(Wishes(b, v1::ConfigWish::PROMOTE)[0].epoch(), 1u);
  ASSERT_TRUE(Fence(b, 2, /*only_if_silent=*/true));
  ConfigureAt(b, 2, 1, {});
  EXPECT_FALSE(Push(b, 2, 2)) << "it came before";
  EXPECT_FALSE(Push(b, 3, 4));
  const auto answers = Pull(b);
  ASSERT_THAT(answers->certificates, SizeIs(1));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(answers->certificates[0].epoch, Epoch(2));
  EXPECT_EQ(answers->certificates[0].own, 3u);
}

TEST_F(ReplicationTest, AFencedReplicaStopsFollowingTheOldPrimary) {
  CutOff(a);
  Pass(absl::Milliseconds(600));
  ASSERT_TRUE(Fence(b, 2, true));
  net.cut.clear();
  Push(a, 1, 1);
  Pass(absl::Milliseconds(300));
  EXPECT_THAT(acks->numbers, IsEmpty());
  EXPECT_FALSE(a.host.primary()->MayAnswer());
  EXPECT_TRUE(Fence(b, 2, true)) << "again: the same answer";
}

TEST_F(ReplicationTest, ALateBeaconEndsTheWish) {
  CutOff(a);
  Pass(absl::Milliseconds(600));
  net.cut.clear();
  Pass(absl::Milliseconds(120));
  EXPECT_FALSE(Fence(b, 2, true));
}

// Nothing is written meanwhile, so that the records alone do not tell whether it has the pages.
TEST_F(ReplicationTest, ALearnerHoldsNothingWhileItsPagesAreUnderWay) {
  Push(a, 1, 3);
  Deliver();
  net.held_up = [](const auto& head) { return head.pages_size() > 0 || head.image_complete(); };
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Seconds(1));
  ASSERT_NE(c.host.follower(), nullptr);
  ASSERT_FALSE(net.under_way.empty());
  EXPECT_FALSE(c.host.follower()->whole());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::ADD), IsEmpty());
  net.held_up = nullptr;
  std::ranges::move(std::exchange(net.under_way, {}), std::back_inserter(net.messages));
  Pass(absl::Milliseconds(300));
  EXPECT_TRUE(c.host.follower()->whole());
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

TEST_F(ReplicationTest, ALearnerIsAwaitedBeforeItIsAdded) {
  for (PartNumber n = 1; n <= 20; ++n) Push(a, n, 1);
  Deliver();
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(200));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
  EXPECT_EQ(Wishes(a, v1::ConfigWish::ADD)[0].members(0).shard(), 2u);
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
  // Not a member yet, and waited for all the same.
  net.cut.emplace(a.self, c.self);
  acks->numbers.clear();
  Push(a, 21, 1);
  Deliver();
  EXPECT_THAT(acks->numbers, IsEmpty());
  net.cut.clear();
  Pass(absl::Milliseconds(100));
  Configure(2, 0, {1, 2});
  Pass(absl::Milliseconds(100));
  EXPECT_THAT(acks->numbers, ElementsAre(21));
  EXPECT_EQ(c.host.role(), SegmentHost::Role::kReplica);
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
}

TEST_F(ReplicationTest, ALearnerThatKnewOfTheNextEpochFirstIsAskedAgainInIt) {
  ConfigureAt(c, 2, 0, {1});
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(100));
  ASSERT_EQ(c.host.follower(), nullptr) << "it refuses the older epoch";
  ConfigureAt(a, 2, 0, {1});
  ConfigureAt(b, 2, 0, {1});
  Pass(absl::Milliseconds(200));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

// Of all that is sent ahead, and of one page at a time.
class OvertakenImageTest : public ReplicationTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  OvertakenImageTest() : ReplicationTest(Disks::kNone, {.pages = GetParam(), .frame_bytes = 1}) {
    Configure(1, 0, {1});
    Pass(absl::Milliseconds(40));
    Open(kA);
  }
};

TEST_P(OvertakenImageTest, AnOvertakenImageBeginsAgainInTheNextEpoch) {
  Push(a, 1, 3);
  Deliver();
  net.held_up = [amid = false](const auto& head) mutable { return amid = amid || head.has_image(); };
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(50));
  ASSERT_FALSE(net.under_way.empty());
  ConfigureAt(c, 2, 0, {1});
  net.held_up = nullptr;
  std::ranges::move(std::exchange(net.under_way, {}), std::back_inserter(net.messages));
  Pass(absl::Milliseconds(100));
  ConfigureAt(a, 2, 0, {1});
  ConfigureAt(b, 2, 0, {1});
  Pass(absl::Milliseconds(300));  // nothing is written meanwhile
  ASSERT_NE(c.host.follower(), nullptr);
  ASSERT_TRUE(c.host.follower()->whole());
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}
INSTANTIATE_TEST_SUITE_P(Pages, OvertakenImageTest, ::testing::Values(64, 1));

TEST_F(ReplicationTest, AnAwaitedLearnerThatFailsIsLeftOutByANewEpochOnly) {
  a.host.Recruit(Epoch(1), c.self);
  Pass(absl::Milliseconds(200));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
  CutOff(c);
  Pass(absl::Milliseconds(700));
  EXPECT_FALSE(a.host.primary()->MayAnswer()) << "it may have been added";
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::KEEP).empty());
  ConfigureAt(a, 2, 0, {1});
  Pass(absl::Milliseconds(100));
  EXPECT_TRUE(a.host.primary()->MayAnswer());
}

TEST_F(ReplicationTest, RecordsThatThePrimaryWroteAloneAreDiscardedWhenItReturns) {
  Push(a, 1, 1);
  Deliver();
  CutOff(a);
  Push(a, 2, 100);  // reaches nobody
  Pass(absl::Milliseconds(600));
  ASSERT_TRUE(Fence(b, 2, true));
  ConfigureAt(b, 2, 1, {});
  EXPECT_FALSE(Push(b, 2, 2));
  EXPECT_FALSE(Push(b, 3, 4));
  net.cut.clear();
  ASSERT_TRUE(b.host.Recruit(Epoch(2), a.self));
  ConfigureAt(a, 2, 1, {});
  Pass(absl::Milliseconds(200));
  ASSERT_NE(a.host.follower(), nullptr);
  EXPECT_EQ(a.host.follower()->segment()->Hash(), b.host.primary()->segment().Hash());
  EXPECT_EQ(a.budget->images, 1) << "its log went another way: nothing of it is kept";
  EXPECT_FALSE(Wishes(b, v1::ConfigWish::ADD).empty());
}

TEST_F(ReplicationTest, APrimaryThatWroteNothingAloneComesBackByRecords) {
  Push(a, 1, 1);
  Deliver();
  CutOff(a);
  Pass(absl::Milliseconds(600));
  ASSERT_TRUE(Fence(b, 2, true));
  ConfigureAt(b, 2, 1, {});
  EXPECT_FALSE(Push(b, 2, 2));
  EXPECT_FALSE(Push(b, 3, 4));
  net.cut.clear();
  ASSERT_TRUE(b.host.Recruit(Epoch(2), a.self));
  ConfigureAt(a, 2, 1, {});
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(a.host.follower()->segment()->Hash(), b.host.primary()->segment().Hash());
  EXPECT_EQ(a.budget->images, 0) << "the new primary had nobody to keep its log for, and kept it";
}

TEST_F(ReplicationTest, AReplicaThatWasLeftOutComesBackByRecordsIfItWasNotAwayForLong) {
  const auto leave_out_and_recruit = [&](uint64_t epoch, uint64_t bytes, PartNumber next) {
    CutOff(b);
    Pass(absl::Milliseconds(20));
    ConfigureAt(a, epoch, 0, {});
    for (uint64_t written = 0; written < bytes; ++next) {
      EXPECT_FALSE(Push(a, next, 1));
      written += log::EncodeRecord(log::MakeUpdate(kA, next, {{5, 1}}, 0)).size();
    }
    net.cut.clear();
    ConfigureAt(b, epoch, 0, {});
    EXPECT_TRUE(a.host.Recruit(Epoch(epoch), b.self));
    Pass(absl::Milliseconds(200));
    EXPECT_EQ(b.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
    Configure(epoch + 1, 0, {1});
    Pass(absl::Milliseconds(50));
    return next;
  };
  const PartNumber next = leave_out_and_recruit(2, log::Replicas::kKeptMax / 2, 1);
  EXPECT_EQ(b.budget->images, 0);
  EXPECT_GT(ReplicationOf(a.host).log_bytes, log::Replicas::kKeptMax / 2);
  EXPECT_LE(ReplicationOf(a.host).log_bytes, log::Replicas::kKeptMax);
  leave_out_and_recruit(4, log::Replicas::kKeptMax * 2, next);
  EXPECT_EQ(b.budget->images, 1);
}

TEST_F(ReplicationTest, WithoutFollowersNoRecordsAreKept) {
  Configure(2, 0, {});
  Push(a, 1, 1);
  EXPECT_GT(ReplicationOf(a.host).log_bytes, 0u);
  for (PartNumber n = 2; ReplicationOf(a.host).log_bytes > 0; ++n) {
    ASSERT_LT(n, 100'000u);
    ASSERT_LE(ReplicationOf(a.host).log_bytes, log::Replicas::kKeptMax);
    Push(a, n, 1);
  }
}

TEST_F(ReplicationTest, AReplicaThatIsSilentIsBorneForAsLongAsItsLinkStands) {
  net.stalled.insert(b.self);
  Push(a, 1, 1);
  Pass(absl::Milliseconds(850));
  EXPECT_FALSE(a.host.primary()->MayAnswer());
  EXPECT_THAT(acks->numbers, IsEmpty());
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
  Pass(absl::Milliseconds(100));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::DROP).empty()) << "writers wait no longer than a second";
}

TEST_F(ReplicationTest, AReplicaThatStoodStillForAMomentStaysAndLengthensTheLease) {
  net.stalled.insert(b.self);
  Push(a, 1, 1);
  Pass(absl::Milliseconds(700));
  net.stalled.clear();
  Pass(absl::Milliseconds(50));
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
  EXPECT_THAT(Wishes(b, v1::ConfigWish::PROMOTE), IsEmpty());
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  EXPECT_TRUE(a.host.primary()->MayAnswer());
  EXPECT_GE(ReplicationOf(a.host).lease, 2 * log::kLease);
}

TEST_F(ReplicationTest, ALeaseOfOneEpochHoldsInTheNext) {
  net.stalled.insert(b.self);
  Pass(absl::Milliseconds(700));
  net.stalled.clear();
  Pass(absl::Milliseconds(800));  // the longer lease is told, and lent
  ASSERT_GE(ReplicationOf(a.host).lease, 2 * log::kLease);
  Configure(2, 0, {1});
  CutOff(a);
  bool outlived = false;
  bool fenced = false;
  for (int i = 0; i < 100 && !fenced; ++i) {
    Pass(absl::Milliseconds(50));
    fenced = Fence(b, 3, /*only_if_silent=*/true);
    const bool answers = a.host.primary()->MayAnswer();
    EXPECT_FALSE(fenced && answers) << "another primary could answer now";
    outlived |= answers && i * absl::Milliseconds(50) > log::Patience(log::kLease);
  }
  EXPECT_TRUE(outlived) << "nothing is shown";
  EXPECT_TRUE(fenced);
}

TEST_F(ReplicationTest, AReplicaWhoseLinkHasBrokenIsAskedOutAsSoonAsItCannotBeADelay) {
  net.cut.emplace(a.self, b.self);
  Pass(absl::Milliseconds(340));  // the last beacon left up to a quarter of a lease before
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
  Pass(absl::Milliseconds(120));
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::DROP).empty());
}

TEST_F(ReplicationTest, ALearnerThatFellBehindWhileAskedBeginsAgain) {
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(200));
  Configure(2, 0, {1});  // without it
  a.host.Recruit(Epoch(2), c.self);
  a.host.OnTime(clock.now);  // asks where it stands; the answer is slow
  auto slow = std::exchange(net.messages, {});
  const log::Replicas& replicas = a.host.primary()->replicas();
  PartNumber next = 1;
  for (const Lsn asked = replicas.tail().end().lsn; replicas.tail().base().lsn <= asked; ++next) {
    Push(a, next, 1);
    Deliver();  // the replica holds it, and what is not kept for others is cut
  }
  net.messages = std::move(slow);
  Deliver();
  Push(a, next, 1);
  Pass(absl::Milliseconds(300));
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

TEST_F(ReplicationTest, AnImageThatLostPagesBeginsAgain) {
  for (PartNumber n = 1; n <= 5; ++n) Push(a, n, 1);
  Deliver();
  a.host.Recruit(Epoch(1), c.self);
  a.host.OnTime(clock.now);
  for (int i = 0; i < 100 && c.host.follower() == nullptr;
       ++i) {  // the question, and the answer that there is nothing
    Net::Message message = std::move(net.messages.front());
    net.messages.pop_front();
    message.deliver(*net.nodes.at(message.to));
  }
  while (!net.messages.empty() && c.host.follower()->segment() == nullptr) {
    Net::Message message = std::move(net.messages.front());
    net.messages.pop_front();
    message.deliver(*net.nodes.at(message.to));
  }
  ASSERT_NE(c.host.follower()->segment(), nullptr) << "the image has come";
  ASSERT_FALSE(c.host.follower()->whole()) << "its pages have not";
  net.messages.clear();
  net.cut.emplace(a.self, c.self);
  a.host.OnTime(clock.now);
  net.cut.clear();
  Pass(absl::Milliseconds(300));  // nothing is written meanwhile
  ASSERT_TRUE(c.host.follower()->whole());
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
  EXPECT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
}

TEST_F(ReplicationTest, UnreplicatedRecordsAreCounted) {
  EXPECT_EQ(ReplicationOf(a.host).unreplicated_records, 0u);
  EXPECT_EQ(ReplicationOf(a.host).lease, log::kLease);
  EXPECT_EQ(ReplicationOf(b.host).replicas, 1u);
  EXPECT_EQ(ReplicationOf(b.host).lease, absl::ZeroDuration());
  for (PartNumber n = 1; n <= 3; ++n) Push(a, n, 1);
  const ReplicationState before = ReplicationOf(a.host);
  EXPECT_EQ(before.primaries, 1u);
  EXPECT_EQ(before.not_answering, 0u);
  // Three parts, and the opening of their table.
  EXPECT_EQ(before.unreplicated_records, 4u);
  EXPECT_EQ(before.pending_acks, 3u);
  EXPECT_GT(before.unreplicated_bytes, 3 * (sizeof(uint64_t) + sizeof(float)));
  EXPECT_GE(before.log_bytes, before.unreplicated_bytes);
  Deliver();
  const ReplicationState after = ReplicationOf(a.host);
  EXPECT_EQ(after.unreplicated_records, 0u);
  EXPECT_EQ(after.unreplicated_bytes, 0u);
  EXPECT_EQ(after.pending_acks, 0u);
}

TEST_F(ReplicationTest, LearnersAreCountedAtBothEndsUntilTheyAreAdded) {
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(ReplicationOf(a.host).learners_taught, 1u);
  EXPECT_EQ(ReplicationOf(c.host).learners, 1u);
  Configure(2, 0, {1, 2});
  EXPECT_EQ(ReplicationOf(a.host).learners_taught, 0u);
  EXPECT_EQ(ReplicationOf(c.host).learners, 0u);
  EXPECT_EQ(ReplicationOf(c.host).replicas, 1u);
}

TEST_F(ReplicationTest, TakeoversFencesAndPrimariesThatMayNotAnswerAreCounted) {
  EXPECT_EQ(ReplicationOf(a.host).events.gained, 0u) << "the first primary takes over from nobody";
  EXPECT_FALSE(Fence(b, 2, /*only_if_silent=*/true));
  CutOff(a);
  Pass(absl::Milliseconds(600));
  EXPECT_EQ(ReplicationOf(a.host).not_answering, 1u);
  EXPECT_TRUE(Fence(b, 2, /*only_if_silent=*/true));
  EXPECT_EQ(ReplicationOf(b.host).events.fenced, 1u);
  EXPECT_EQ(ReplicationOf(b.host).events.not_fenced, 1u);
  Configure(2, 1, {});
  EXPECT_EQ(ReplicationOf(b.host).events.gained, 1u);
  EXPECT_EQ(ReplicationOf(a.host).events.given_up, 1u);
  EXPECT_EQ(ReplicationOf(a.host).primaries, 0u);
}

TEST_F(ReplicationTest, AShardThatStoodStillDoesNotTakeTheSilenceForThePrimarys) {
  clock.now += absl::Seconds(2);  // nobody ran
  b.host.OnTime(clock.now);
  EXPECT_THAT(Wishes(b, v1::ConfigWish::PROMOTE), IsEmpty());
  a.host.OnTime(clock.now);
  EXPECT_THAT(Wishes(a, v1::ConfigWish::DROP), IsEmpty());
}

TEST_F(ReplicationTest, TheMinClockShownIsThatOfReplicatedRecords) {
  const v1::Change join = log::ChangeOf(v1::Change::kJoin, kA, kJob);
  std::string why;
  std::optional<Clock> behind;
  a.host.primary()->Change(join, {}, &why, &behind);
  a.host.Flush();
  Deliver();
  net.cut.emplace(a.self, b.self);
  a.host.primary()->Tick(kA, 3, {});
  const auto answers = Pull(a, /*min_clock=*/3);
  EXPECT_EQ(a.host.primary()->segment().MinClockOf(kJob), 3u);
  EXPECT_EQ(a.host.primary()->MinClockShown(kJob), 0u);
  EXPECT_THAT(answers->certificates, IsEmpty());
  net.cut.clear();
  Pass(absl::Milliseconds(20));
  // The link lost the record: it is sent again once the gap is noticed.
  a.host.primary()->Tick(kA, 4, {});
  Pass(absl::Milliseconds(50));
  ASSERT_THAT(answers->certificates, SizeIs(1));
  EXPECT_GE(answers->certificates[0].min_clock, 3u);
}

}  // namespace
}  // namespace paceline::shard
