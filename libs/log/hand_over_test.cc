#include "libs/log/hand_over.h"

#include "gtest/gtest.h"

namespace paceline::log {
namespace {

using Step = HandOver::Step;

class HandOverTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kMs = absl::Milliseconds(1);
  const absl::Time start = absl::UnixEpoch();
  const ring::Member heir{.shard = ShardId(2), .incarnation = Incarnation(5)};
  HandOver hand_over;
};

TEST_F(HandOverTest, AsksOnceTheReplicaIsReady) {
  EXPECT_EQ(hand_over.Next(start, true), Step::kWait) << "none is under way";
  ASSERT_TRUE(hand_over.Begin(heir, start));
  EXPECT_FALSE(hand_over.Begin({.shard = ShardId(3), .incarnation = Incarnation(1)}, start));
  EXPECT_EQ(hand_over.to(), heir);
  EXPECT_EQ(hand_over.Next(start, false), Step::kWait);
  ASSERT_EQ(hand_over.Next(start + HandOver::kMax, true), Step::kAsk) << "in the last moment";
  EXPECT_FALSE(hand_over.asked());

  const v1::ConfigWish wish = hand_over.Wish(Step::kAsk, SegmentId(3), Epoch(4), start);
  EXPECT_TRUE(hand_over.asked());
  EXPECT_EQ(wish.kind(), v1::ConfigWish::SWAP);
  EXPECT_EQ(wish.segment(), 3u);
  EXPECT_EQ(wish.epoch(), 4u);
  ASSERT_EQ(wish.members_size(), 1);
  EXPECT_EQ(wish.members(0).incarnation(), 5u);
}

TEST_F(HandOverTest, GivesUpIfTheReplicaDoesNotCatchUp) {
  hand_over.Begin(heir, start);
  EXPECT_EQ(hand_over.Next(start + HandOver::kMax, false), Step::kWait);
  EXPECT_EQ(hand_over.Next(start + HandOver::kMax + kMs, true), Step::kGiveUp);
  hand_over.End();
  EXPECT_FALSE(hand_over.under_way());
}

TEST_F(HandOverTest, WithoutAnAnswerItAsksToStayAgainAndAgain) {
  hand_over.Begin(heir, start);
  hand_over.Wish(Step::kAsk, SegmentId(3), Epoch(4), start);
  absl::Time asked = start;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(hand_over.Next(asked + HandOver::kMax - kMs, false), Step::kWait);
    asked += HandOver::kMax;
    ASSERT_EQ(hand_over.Next(asked, false), Step::kAskBack);
    const v1::ConfigWish wish = hand_over.Wish(Step::kAskBack, SegmentId(3), Epoch(4), asked);
    EXPECT_EQ(wish.kind(), v1::ConfigWish::KEEP);
    EXPECT_EQ(wish.members_size(), 0);
  }
  EXPECT_TRUE(hand_over.asked()) << "it never answers again in this epoch";
  hand_over.End();
  EXPECT_FALSE(hand_over.asked());
}

TEST_F(HandOverTest, AnUnfitPrimaryPausesBetweenTwoAttempts) {
  EXPECT_TRUE(hand_over.MayBeginUnfit(start));
  hand_over.PauseUnfit(start);
  hand_over.Begin(heir, start);
  EXPECT_FALSE(hand_over.MayBeginUnfit(start + 2 * HandOver::kMax)) << "one is under way";
  hand_over.End();
  EXPECT_FALSE(hand_over.MayBeginUnfit(start + 2 * HandOver::kMax - kMs));
  EXPECT_TRUE(hand_over.MayBeginUnfit(start + 2 * HandOver::kMax));
}

}  // namespace
}  // namespace paceline::log
