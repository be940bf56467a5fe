// A member follows the primary that a configuration named, and no other that claims to be primary.
#include "libs/log/segment_image.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;

using NamedTest = ReplicationTest;

TEST_F(NamedTest, AnUnnamedPrimaryIsNotFollowed) {
  Push(a, 1, 3);
  Deliver();
  v1::ReplicateRequest::Segment frame;
  frame.set_segment(kSegment.v);
  frame.set_transfer(7);
  *frame.mutable_image() = log::ImageOf(log::Segment(kSegment, /*ring_bits=*/0));
  frame.set_image_complete(true);
  v1::Beacon beacon;
  beacon.set_segment(kSegment.v);
  beacon.set_lease_us(60'000'000);
  const uint64_t before = b.host.follower()->segment()->Hash();
  const std::vector<std::pair<ring::Member, uint64_t>> claims = {
      {c.self, 1}, {c.self, 1000}, {a.self, 1000}, {b.self, 2}};
  for (const auto& [from, epoch] : claims) {
    frame.set_epoch(epoch);
    beacon.set_epoch(epoch);
    for (Node* node : {&a, &b}) {
      if (node == &a && epoch == 1) continue;  // it knows who is primary
      EXPECT_FALSE(node->host.Follow(from, frame, absl::Cord(), 0)) << ring::ToString(from) << epoch;
      EXPECT_FALSE(node->host.OnBeacon(from, beacon)) << ring::ToString(from) << epoch;
    }
  }
  EXPECT_EQ(b.host.follower()->segment()->Hash(), before);
  ASSERT_NE(a.host.primary(), nullptr);
  Push(a, 2, 1);
  Deliver();
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2));
  CutOff(a);
  Pass(absl::Milliseconds(600));
  EXPECT_FALSE(Wishes(b, v1::ConfigWish::PROMOTE).empty()) << "who is not followed lends nothing either";
}

TEST_F(NamedTest, ANewPrimaryIsFollowedAsSoonAsItIsNamed) {
  Push(a, 1, 3);
  Deliver();
  ASSERT_TRUE(Fence(b, 2, /*only_if_silent=*/false));
  ConfigureAt(b, 2, 1, {0});
  Push(b, 2, 1);
  Pass(absl::Milliseconds(40));
  EXPECT_NE(a.host.primary(), nullptr) << "it has not been told";
  EXPECT_THAT(acks->numbers, ElementsAre(1));
  ConfigureAt(a, 2, 1, {0});
  EXPECT_EQ(a.host.primary(), nullptr);
  Deliver();
  EXPECT_EQ(a.host.follower()->position().epoch, Epoch(2)) << "and not when it is next asked";
  Pass(absl::Milliseconds(150));
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2));
}

TEST_F(NamedTest, AMemberThatMissedTheEpochAnswersInTheNext) {
  Push(a, 1, 3);
  Deliver();
  ASSERT_TRUE(Fence(b, 2, /*only_if_silent=*/false));
  ConfigureAt(b, 2, 1, {0});
  Push(b, 2, 1);
  Pass(absl::Milliseconds(40));
  ConfigureAt(b, 3, 1, {0});  // its followers go on as they are
  Pass(absl::Milliseconds(40));
  ConfigureAt(a, 3, 1, {0});
  Pass(absl::Milliseconds(150));
  EXPECT_THAT(acks->numbers, ElementsAre(1, 2)) << "it would never be asked again";
}

// It is told of two epochs, one after the other, and has been asked in both.
TEST_F(NamedTest, APrimaryThatIsNamedLaterIsAnswered) {
  ConfigureAt(a, 2, 0, {1});
  ConfigureAt(b, 2, 0, {1});
  ASSERT_TRUE(a.host.Recruit(Epoch(2), c.self));
  Pass(absl::Milliseconds(40));
  ConfigureAt(a, 3, 1, {0});
  ConfigureAt(b, 3, 1, {0});
  ASSERT_TRUE(b.host.Recruit(Epoch(3), c.self));
  Pass(absl::Milliseconds(40));
  ASSERT_EQ(c.host.follower(), nullptr);
  ConfigureAt(c, 2, 0, {1});
  ConfigureAt(c, 3, 1, {0});
  Pass(absl::Milliseconds(100));
  ASSERT_NE(c.host.follower(), nullptr);
  EXPECT_TRUE(c.host.follower()->whole());
}

TEST_F(NamedTest, AQuestionThatWasForgottenAmongManyIsAskedAgain) {
  ConfigureAt(a, 2, 0, {1});
  ConfigureAt(b, 2, 0, {1});
  ASSERT_TRUE(a.host.Recruit(Epoch(2), c.self));
  Pass(absl::Milliseconds(40));
  v1::ReplicateRequest::Segment claim;
  claim.set_segment(kSegment.v);
  claim.set_epoch(1000);
  for (uint32_t stranger = 100; stranger < 150; ++stranger) {
    const ring::Member from{.shard = ShardId(stranger), .incarnation = Incarnation(1)};
    EXPECT_FALSE(c.host.Follow(from, claim, absl::Cord(), 0));
  }
  ConfigureAt(c, 2, 0, {1});
  Pass(absl::Milliseconds(1200));
  ASSERT_NE(c.host.follower(), nullptr);
  EXPECT_TRUE(c.host.follower()->whole());
}

// Its link broke and was made anew; the old one delivers what it had under way.
TEST_F(NamedTest, AnImageOfABrokenLinkReplacesNothingThatCameSince) {
  Push(a, 1, 3);
  Deliver();
  net.held_up = [amid = false](const auto& head) mutable { return amid = amid || head.has_image(); };
  ASSERT_TRUE(a.host.Recruit(Epoch(1), c.self));
  Pass(absl::Milliseconds(50));
  const std::deque<Net::Message> late = std::exchange(net.under_way, {});
  ASSERT_FALSE(late.empty());
  net.held_up = nullptr;
  CutOff(c);
  Pass(absl::Milliseconds(20));
  net.cut.clear();
  Pass(absl::Milliseconds(300));
  ASSERT_FALSE(Wishes(a, v1::ConfigWish::ADD).empty());
  ASSERT_TRUE(c.host.follower()->whole());
  std::ranges::copy(late, std::back_inserter(net.messages));
  Pass(absl::Milliseconds(50));
  EXPECT_TRUE(c.host.follower()->whole());
  EXPECT_EQ(c.host.follower()->segment()->Hash(), a.host.primary()->segment().Hash());
}

class FirstMapMissedTest : public ReplicationTest {
 protected:
  FirstMapMissedTest() : ReplicationTest(Disks::kNone) {}
};

// A member was never told of epoch 1, and its primary ends before it has sent it anything.
TEST_F(FirstMapMissedTest, AMemberThatHearsOfALaterEpochFirstIsInSyncWithTheEmptySegment) {
  ConfigureAt(a, 1, 0, {1, 2});
  ConfigureAt(a, 2, 0, {1});
  ConfigureAt(b, 2, 0, {1});
  CutOff(a);
  Pass(absl::Milliseconds(700));
  EXPECT_FALSE(Wishes(b, v1::ConfigWish::PROMOTE).empty());
  EXPECT_TRUE(Fence(b, 3, /*only_if_silent=*/true)) << "nobody else could take over, ever";
}

TEST_F(FirstMapMissedTest, AMemberThatWasLeftOutBeginsWithThePrimarysImage) {
  Configure(1, 0, {1});
  ConfigureAt(c, 2, 0, {1, 2});
  CutOff(a);
  Pass(absl::Milliseconds(700));
  EXPECT_TRUE(Wishes(c, v1::ConfigWish::PROMOTE).empty());
  EXPECT_FALSE(Fence(c, 3, /*only_if_silent=*/true));
}

}  // namespace
}  // namespace paceline::shard
