// Pushes: numbers, resends, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/test_util/push_fixture.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using testing::FakeCluster;
using testing::FakeStream;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PushTest;
using ::testing::SizeIs;

TEST_F(PushTest, APushReachesEverySegmentItTouchesAndCompletesWhenCommitted) {
  h.cluster.auto_commit = false;
  std::vector<uint64_t> keys(20);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> values(40, 1.5f);
  auto push = h.Push(table, keys, values);
  h.Run();
  EXPECT_FALSE(push->ended());
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
  h.cluster.CommitAll();
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  for (uint64_t key : keys) {
    EXPECT_EQ(h.cluster.Row(table->placement.Of(key).v, table->id.v, key), (std::vector<float>{1.5f, 1.5f}));
  }
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PushTest, ARangeIsPushedAsRanges) {
  std::vector<float> values(2 * 9'000);
  std::iota(values.begin(), values.end(), 0.0f);
  auto push = h.PushRange(ranged, 500, values);
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
  for (uint64_t key : {500u, 501u, 5'000u, 9'499u}) {
    const float first = static_cast<float>((key - 500) * 2);
    EXPECT_EQ(h.cluster.Row(ranged->placement.Of(key).v, ranged->id.v, key),
              (std::vector<float>{first, first + 1}));
  }
}

TEST_F(PushTest, AnEmptyPushEndsAtOnce) {
  auto push = h.Push(table, {}, {});
  EXPECT_THAT(push->status.value(), IsOk());
}

TEST_F(PushTest, AfterABreakTheSamePartsAreSentAgainByteForByte) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(0, 2);
  std::vector<Taken> before;
  while (auto taken = Take(stream)) before.push_back(*taken);
  ASSERT_THAT(before, SizeIs(2));
  stream.Break();
  h.clock.now += absl::Seconds(2);
  h.Enter([&] { h.core->OnTime(); });
  FakeStream& next = h.PushStream(h.cluster.PrimaryOf(0));
  ASSERT_NE(&next, &stream);
  EXPECT_TRUE(Take(next)->head.has_hello());
  EXPECT_FALSE(Take(next).has_value());  // not welcomed yet
  v1::PushReply welcome;
  welcome.mutable_welcome()->set_window_bytes(1 << 20);
  welcome.mutable_welcome()->set_frame_bytes_max(1 << 20);
  next.Give(absl::Cord(welcome.SerializeAsString()));
  for (const Taken& sent : before) {
    const Taken again = Take(next).value();
    EXPECT_EQ(again.parts, sent.parts);
    EXPECT_EQ(again.keys, sent.keys);
    EXPECT_EQ(again.values, sent.values);
    EXPECT_EQ(again.head.clock(), sent.head.clock());
  }
  EXPECT_EQ(h.core->stats().retries, 2u);
  EXPECT_EQ(h.core->stats().breaks, 1u);
}

TEST_F(PushTest, CommittedPartsAreNotSentAgainAfterABreak) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  h.Run();
  PushTo(0, 2);
  Take(stream);  // lost
  stream.Break();
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2, 3}));
  EXPECT_EQ(h.core->stats().retries, 1u);
}

TEST_F(PushTest, NumbersFollowClocks) {
  PushTo(0, 1);
  PushTo(1, 1);
  ASSERT_THAT(h.Tick(), IsOk());
  PushTo(0, 1);
  h.Run();
  EXPECT_EQ(h.cluster.LogOf(0)[0].clock, 0u);
  EXPECT_EQ(h.cluster.LogOf(0)[1].clock, 1u);
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2}));
  EXPECT_EQ(Numbers(1), (std::vector<PartNumber>{1}));
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(PushTest, MovedPartsWaitForTheMapAndGoToTheNewPrimary) {
  Connect();
  h.cluster.Move(0, 1, /*lose_uncommitted=*/false);
  auto push = PushTo(0, 3);
  h.Run();  // refused MOVED; the map has not come
  EXPECT_FALSE(push->ended());
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2}));
}

TEST_F(PushTest, PartsLostInATakeoverAreSentAgain) {
  Connect();
  h.cluster.auto_commit = false;
  auto push = PushTo(0, 3);
  h.Run();
  h.cluster.Move(0, 1, /*lose_uncommitted=*/true);
  h.cluster.auto_commit = true;
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2}));
}

TEST_F(PushTest, EvenIfTheSegmentComesBackToTheSameShard) {
  Connect();
  h.cluster.auto_commit = false;
  auto push = PushTo(0, 3);
  h.Run();
  h.cluster.Move(0, 1, true);
  h.cluster.Move(0, 0, true);
  h.cluster.auto_commit = true;
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
}

TEST_F(PushTest, InvalidFailsThePushAndAnEmptyPartTakesItsNumber) {
  h.cluster.judge = [](const v1::PushRequest&, const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.number != 2 || part.count == 0) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::INVALID);
    refusal.set_message("values: there is a NaN");
    return refusal;
  };
  auto first = PushTo(0, 1);
  auto bad = PushTo(0, 2);
  auto third = PushTo(0, 3);
  h.Run();
  EXPECT_THAT(first->status.value(), IsOk());
  EXPECT_THAT(bad->status.value(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NaN")));
  EXPECT_THAT(third->status.value(), IsOk());
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2, 3}));
  EXPECT_TRUE(h.cluster.LogOf(0)[1].keys.empty());
  EXPECT_EQ(h.core->unacknowledged_bytes(), 0u);
  // No error is lost, even if its future was dropped; but it is reported once.
  EXPECT_THAT(h.Flush()->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(h.Flush()->status.value(), IsOk());
}

TEST_F(PushTest, AGapIsMendedByGoingBackOnce) {
  FakeStream& stream = Connect();
  for (float v : {1.0f, 2.0f, 3.0f}) PushTo(0, v);
  std::vector<Taken> lost;
  for (int i = 0; i < 3; ++i) lost.push_back(Take(stream).value());
  // Frames 2, 3 and 4 carried parts 2, 3 and 4; the shard says that it missed the first of them, twice.
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 3, 3, 2);
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 4, 4, 2);
  for (PartNumber number : {2u, 3u, 4u}) EXPECT_EQ(Take(stream)->parts[0].number, number);
  EXPECT_FALSE(Take(stream).has_value());
  // A refusal of the first sending comes late: nothing is sent a third time.
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 4, 4, 2);
  EXPECT_FALSE(Take(stream).has_value());
}

TEST_F(PushTest, OverBudgetHoldsOnlyItsLineBackForAWhile) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(0, 2);
  Take(stream);
  Take(stream);
  Refuse(stream, v1::Refusal::OVER_BUDGET, 0, 2, 2, 2, /*retry_ms=*/100);
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 3, 3, 2);
  PushTo(0, 3);
  EXPECT_FALSE(Take(stream).has_value());
  PushTo(2, 9);  // another segment of the same shard
  EXPECT_EQ(Take(stream)->parts[0].segment, SegmentId(2));
  h.Advance(absl::Milliseconds(200));
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2, 3, 4}));
}

TEST_F(PushTest, AWaitForMemoryNamesTheAnswerOfTheShard) {
  h.cluster.judge = [&](const v1::PushRequest&, const wire::PartEntry&) -> std::optional<v1::Refusal> {
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::OVER_BUDGET);
    refusal.set_message("the shard's memory budget is full");
    return refusal;
  };
  auto push = PushTo(0, 1);
  h.Advance(absl::Seconds(61));
  ASSERT_TRUE(push->ended());
  EXPECT_THAT(*push->status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      HasSubstr("which refuses: the shard's memory budget is full")));
}

TEST_F(PushTest, UnavailableIsTriedAgain) {
  int refusals = 0;
  h.cluster.judge = [&](const v1::PushRequest&, const wire::PartEntry&) -> std::optional<v1::Refusal> {
    if (++refusals > 5) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_retry_after_ms(20);
    return refusal;
  };
  auto push = PushTo(0, 1);
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(push->status.value(), IsOk());
  EXPECT_EQ(h.core->stats().retries, 5u);
}

TEST_F(PushTest, AFrameRefusedWithoutNamingPartsConcernsAllOfThem) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  Take(stream);
  Refuse(stream, v1::Refusal::UNAVAILABLE, 0, /*number=*/0, /*frame=*/2, 0, 10);
  h.Advance(absl::Milliseconds(50));
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1, 2}));
}

TEST_F(PushTest, AShardBehindItsWordIsDataLoss) {
  for (float v : {1.0f, 2.0f, 3.0f}) PushTo(0, v);
  h.Run();
  h.cluster.Lose(0, 1);
  auto push = PushTo(0, 4);
  h.Run();
  EXPECT_THAT(push->status.value(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("parts 2 to 3 are lost")));
  EXPECT_THAT(h.core->failure(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("segment 0")));
  EXPECT_THAT(PushTo(1, 1)->status.value(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(h.Pull(table, {1})->status.value(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(h.Tick(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PushTest, ARefusalOlderThanAMarkIsNoLoss) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(0, 2);
  Take(stream);
  Take(stream);
  v1::PushReply reply;
  wire::Append(wire::Mark{SegmentId(0), Line::kArrival, 2}, *reply.mutable_committed());
  stream.Give(absl::Cord(reply.SerializeAsString()));
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 3, 3, 2);  // from before part 2 was there
  EXPECT_THAT(h.core->failure(), IsOk());
  EXPECT_EQ(Take(stream)->parts[0].number, 3u);
}

TEST_F(PushTest, AFencedSessionIsOver) {
  Connect();
  auto pull = h.Pull(table, {KeyIn(1)}, /*min_clock=*/99);
  h.cluster.CloseSession(7);
  auto push = PushTo(0, 1);
  h.Run();
  EXPECT_THAT(push->status.value(), StatusIs(absl::StatusCode::kAborted, HasSubstr("shard-0")));
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(h.Flush()->status.value(), StatusIs(absl::StatusCode::kAborted, HasSubstr("connect again")));
}

TEST_F(PushTest, MalformedIsOurFault) {
  FakeStream& stream = Connect();
  auto push = PushTo(0, 1);
  Take(stream);
  Refuse(stream, v1::Refusal::MALFORMED, 0, 0, 2);
  EXPECT_THAT(push->status.value(), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(PushTest, ADeadlineEndsTheWaitButNotThePush) {
  h.unreachable.insert(FakeCluster::AddressOf(0));
  auto push = PushTo(0, 1);
  h.Run();
  h.PushStream(0).Break(absl::UnavailableError("connection refused"));
  h.Advance(absl::Seconds(59));
  EXPECT_FALSE(push->ended());
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(push->status.value(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                             AllOf(HasSubstr("'w'"), HasSubstr("waited 1m"),
                                                   HasSubstr("shard-0 at shard-0:1: no welcome"))));
  auto flush = h.Flush();
  EXPECT_FALSE(flush->ended());
  h.unreachable.clear();
  h.Advance(absl::Seconds(10));
  EXPECT_THAT(flush->status.value(), IsOk());
  EXPECT_EQ(Numbers(0), (std::vector<PartNumber>{1}));
}

TEST_F(PushTest, AFlushDeadlineNamesTheShard) {
  h.unreachable.insert(FakeCluster::AddressOf(1));
  PushTo(1, 1);
  auto flush = h.Flush(absl::Seconds(1));
  h.Run();
  h.PushStream(1).Break(absl::UnavailableError("connection refused"));
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(flush->status.value(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                              HasSubstr("shard-1 at shard-1:1: connection refused")));
}

TEST_F(PushTest, FlushWaitsForEarlierPushesOnly) {
  h.cluster.auto_commit = false;
  PushTo(0, 1);
  h.Run();
  auto flush = h.Flush();
  EXPECT_FALSE(flush->ended());
  h.cluster.CommitAll();
  PushTo(1, 1);
  h.Run();
  EXPECT_THAT(flush->status.value(), IsOk());
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
}

TEST_F(PushTest, AShardThatIsFoundElsewhereIsDialedThere) {
  FakeStream& before = Connect();
  h.cluster.Relocate(0, "elsewhere:1");
  h.coordinator.PublishMap();
  auto push = PushTo(0, 1);
  h.Advance(absl::Seconds(1));
  EXPECT_FALSE(before.open());
  EXPECT_NE(h.dialer.Newest("elsewhere:1", world::StreamKind::kPush), nullptr);
  EXPECT_THAT(push->status.value(), IsOk());
}

}  // namespace
}  // namespace paceline::sdk
