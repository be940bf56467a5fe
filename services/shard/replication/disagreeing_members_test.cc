// Members whose logs disagree with that of their primary, and the copies that they keep.
#include <algorithm>
#include <iterator>
#include <utility>

#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of three members one lags; another was copied after that, and so cannot bring the first to date by records
// when it takes over.
class DisagreeingMemberTest : public ReplicationTest {
 protected:
  DisagreeingMemberTest() {
    Push(a, 1, 1);
    Deliver();
    EXPECT_TRUE(a.host.Recruit(Epoch(1), c.self));
    Pass(absl::Milliseconds(200));
    Configure(2, 0, {2});
    Pass(absl::Seconds(11));  // no configuration counts on the first replica's copy
    EXPECT_EQ(b.host.follower(), nullptr);
    net.cut.emplace(a.self, c.self);
    Push(a, 2, 10);
    EXPECT_TRUE(a.host.Recruit(Epoch(2), b.self));
    Pass(absl::Milliseconds(200));
    Configure(3, 0, {1, 2});
    lagging = c.host.follower()->position();
    CutOff(a);
    Pass(absl::Milliseconds(600));
    EXPECT_TRUE(Fence(b, 4, true));
    EXPECT_TRUE(Fence(c, 4, false));
    EXPECT_GT(b.host.follower()->position().lsn, lagging.lsn);
    net.wishes.clear();
    ConfigureAt(b, 4, 1, {2});
    ConfigureAt(c, 4, 1, {2});
  }
  log::LogPosition lagging;
};

TEST_F(DisagreeingMemberTest, IsAskedOutAtOnceAndKeepsItsCopy) {
  Pass(absl::Milliseconds(30));
  ASSERT_FALSE(Wishes(b, v1::ConfigWish::DROP).empty());
  EXPECT_EQ(Wishes(b, v1::ConfigWish::DROP)[0].members(0).shard(), 2u);
  acks->numbers.clear();
  EXPECT_FALSE(Push(b, 2, 10));
  EXPECT_FALSE(Push(b, 3, 100));
  Pass(absl::Seconds(2));
  EXPECT_THAT(acks->numbers, IsEmpty()) << "nothing before the store has confirmed an epoch without it";
  EXPECT_EQ(c.budget->images, 1) << "the one with which it became a member";
  ASSERT_TRUE(c.host.follower()->whole());
  EXPECT_EQ(c.host.follower()->position(), lagging);
  EXPECT_THAT(Wishes(c, v1::ConfigWish::PROMOTE), IsEmpty()) << "it hears its primary";
  // The primary ends now: the acknowledged parts are there.
  CutOff(b);
  Pass(absl::Milliseconds(700));
  EXPECT_FALSE(Wishes(c, v1::ConfigWish::PROMOTE).empty());
  ASSERT_TRUE(Fence(c, 5, true));
  ConfigureAt(c, 5, 2, {});
  ASSERT_NE(c.host.primary(), nullptr);
  EXPECT_EQ(c.host.primary()->segment().FindSession(kA)->applied.At(Line::kArrival), 1u);
}

TEST_F(DisagreeingMemberTest, IsCopiedAgainAsALearnerAndKeepsItsOldCopyMeanwhile) {
  Pass(absl::Milliseconds(30));
  ConfigureAt(b, 5, 1, {});
  ConfigureAt(c, 5, 1, {});
  acks->numbers.clear();
  EXPECT_FALSE(Push(b, 3, 100));
  EXPECT_THAT(acks->numbers, ElementsAre(3));
  net.held_up = [](const auto& head) { return head.pages_size() > 0 || head.image_complete(); };
  ASSERT_TRUE(b.host.Recruit(Epoch(5), c.self));
  Pass(absl::Milliseconds(300));
  ASSERT_FALSE(c.host.follower()->whole());
  EXPECT_EQ(c.host.follower()->fallback(), lagging);
  const int64_t both = c.budget->bytes;
  net.held_up = nullptr;
  std::ranges::move(std::exchange(net.under_way, {}), std::back_inserter(net.messages));
  Pass(absl::Milliseconds(300));
  EXPECT_TRUE(c.host.follower()->whole());
  EXPECT_FALSE(c.host.follower()->keeps());
  EXPECT_LT(c.budget->bytes, both);
  EXPECT_EQ(c.host.follower()->segment()->Hash(), b.host.primary()->segment().Hash());
  EXPECT_FALSE(Wishes(b, v1::ConfigWish::ADD).empty());
}

TEST_F(DisagreeingMemberTest, IsTheLastResortOnceTheLossIsAccepted) {
  Pass(absl::Milliseconds(30));
  ConfigureAt(b, 5, 1, {});
  ConfigureAt(c, 5, 1, {});
  net.held_up = [](const auto& head) { return head.pages_size() > 0 || head.image_complete(); };
  ASSERT_TRUE(b.host.Recruit(Epoch(5), c.self));
  Pass(absl::Milliseconds(300));
  ASSERT_FALSE(c.host.follower()->whole());
  CutOff(b);
  Pass(absl::Minutes(2));
  v1::FenceRequest::Segment request;
  request.set_epoch(6);
  request.set_restored(true);
  EXPECT_EQ(c.host.Fence(request).lsn(), 0u) << "it was no member";
  request.set_left_over(true);
  const v1::FenceReply::Segment answer = c.host.Fence(request);
  EXPECT_TRUE(answer.fenced());
  EXPECT_EQ(answer.lsn(), lagging.lsn.v);
  EXPECT_EQ(answer.lsn_epoch(), lagging.epoch.v);
  ConfigureAt(c, 6, 2, {});
  ASSERT_NE(c.host.primary(), nullptr);
  EXPECT_EQ(c.host.primary()->segment().FindSession(kA)->applied.At(Line::kArrival), 1u);
}

TEST_F(DisagreeingMemberTest, IsKeptForAWhileWhereItMayBeNeeded) {
  Pass(absl::Milliseconds(30));
  ConfigureAt(b, 5, 1, {});
  ConfigureAt(c, 5, 1, {});
  Pass(absl::Minutes(9));
  EXPECT_NE(c.host.follower(), nullptr);
  Pass(absl::Minutes(2));
  EXPECT_EQ(c.host.follower(), nullptr);
}

TEST_F(DisagreeingMemberTest, IsNotKeptWhereOthersHaveACopy) {
  Pass(absl::Milliseconds(30));
  ConfigureAt(b, 5, 1, {0});
  ConfigureAt(c, 5, 1, {0});
  Pass(absl::Seconds(11));
  EXPECT_EQ(c.host.follower(), nullptr);
}

// It was left out once before, and has been primary since.
TEST_F(ReplicationTest, AFormerPrimarysCopyIsKeptAsLongAsOneLeftOut) {
  Configure(2, 0, {});
  Configure(3, 1, {});
  Pass(absl::Seconds(11));
  ASSERT_NE(b.host.primary(), nullptr);
  Configure(4, 2, {});
  Pass(absl::Seconds(9));
  EXPECT_NE(b.host.follower(), nullptr);
  Pass(absl::Seconds(2));
  EXPECT_EQ(b.host.follower(), nullptr);
}

TEST_F(DisagreeingMemberTest, MakesRoomWhereMemoryIsShort) {
  Pass(absl::Milliseconds(30));
  ConfigureAt(b, 5, 1, {});
  ConfigureAt(c, 5, 1, {});
  c.budget->full = true;
  net.held_up = [](const auto& head) { return head.pages_size() > 0 || head.image_complete(); };
  ASSERT_TRUE(b.host.Recruit(Epoch(5), c.self));
  Pass(absl::Milliseconds(300));
  EXPECT_FALSE(c.host.follower()->whole());
  EXPECT_FALSE(c.host.follower()->keeps());
}

}  // namespace
}  // namespace paceline::shard
