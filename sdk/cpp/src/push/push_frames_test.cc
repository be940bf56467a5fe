// What goes in one frame of a push stream: the window, grants, and pushes that share it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/test_util/push_fixture.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::FakeStream;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PushTest;
using ::testing::SizeIs;

using PushFramesTest = PushTest;

TEST_F(PushFramesTest, TheWindowIsKeptAndReceivedFramesFreeIt) {
  h.cluster.window_bytes = 100'000;
  FakeStream& stream = Connect();
  std::vector<uint64_t> keys(4'000, KeyIn(0));
  std::vector<float> values(8'000, 1.0f);
  for (int i = 0; i < 10; ++i) h.Push(table, keys, values);  // 64 KB each
  size_t under_way = 0;
  int frames = 0;
  while (auto taken = Take(stream)) {
    under_way += taken->bytes;
    ++frames;
  }
  EXPECT_EQ(frames, 1);
  EXPECT_LE(under_way, h.cluster.window_bytes);
  v1::PushReply reply;
  reply.set_received(2);  // the connecting push, and this one
  stream.Give(absl::Cord(reply.SerializeAsString()));
  EXPECT_TRUE(Take(stream).has_value());
  EXPECT_FALSE(Take(stream).has_value());
}

TEST_F(PushFramesTest, PartsWaitForAGrantAndTicksDoNot) {
  h.cluster.feature_level = 2;
  h.cluster.granted = 100'000;
  FakeStream& stream = Connect();
  const std::vector<uint64_t> keys(4'000, KeyIn(0));
  const std::vector<float> values(8'000, 1.0f);
  for (int i = 0; i < 2; ++i) h.Push(table, keys, values);  // 64 KB each
  size_t sent = Take(stream)->bytes;
  sent += Take(stream).value().bytes;  // a part of the second one is granted, and so may it be sent
  EXPECT_GT(sent, h.cluster.granted);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Push(table, keys, values);
  const Taken tick = Take(stream).value();
  EXPECT_TRUE(tick.head.has_tick());
  EXPECT_THAT(tick.parts, IsEmpty());
  v1::PushReply reply;
  reply.set_received(4);
  reply.set_granted(h.cluster.granted);
  stream.Give(absl::Cord(reply.SerializeAsString()));
  EXPECT_FALSE(Take(stream).has_value()) << "received frames free nothing";
  reply.set_granted(sent + 1'000);
  stream.Give(absl::Cord(reply.SerializeAsString()));
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1)) << "whatever its size";
}

TEST_F(PushFramesTest, WhatIsNotGrantedDoesNotShareAFrameWithWhatIs) {
  h.cluster.feature_level = 2;
  h.cluster.granted = 20'000;
  FakeStream& stream = Connect();
  const std::vector<uint64_t> keys(800, KeyIn(0));
  for (int i = 0; i < 3; ++i) h.Push(table, keys, std::vector<float>(1'600, 1.0f));  // 13 KB each
  EXPECT_THAT(Take(stream).value().parts, SizeIs(2));
  EXPECT_FALSE(Take(stream).has_value());
}

TEST_F(PushFramesTest, LargePushesDoNotShareAFrame) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  const std::vector<uint64_t> keys(2'500, KeyIn(0));
  for (int i = 0; i < 3; ++i) h.Push(table, keys, std::vector<float>(5'000, 1.0f));  // 40 KB each
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
}

TEST_F(PushFramesTest, InTheMiddleOfASharedFrameAPartIsRefusedForItsContent) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  PushTo(0, 1);
  auto bad = PushTo(0, 2);
  auto good = PushTo(0, 3);
  ASSERT_THAT(Take(stream).value().parts, SizeIs(3));
  Refuse(stream, v1::Refusal::INVALID, 0, 3, 2, 3);
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 4, 2, 3);
  EXPECT_THAT(bad->status.value(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("because")));
  const Taken empty = Take(stream).value();
  ASSERT_THAT(empty.parts, SizeIs(1));
  EXPECT_EQ(empty.parts[0].number, 3u);
  EXPECT_EQ(empty.parts[0].count, 0u);
  const Taken rest = Take(stream).value();
  ASSERT_THAT(rest.parts, SizeIs(1));
  EXPECT_EQ(rest.parts[0].number, 4u);
  EXPECT_EQ(rest.parts[0].count, 1u);
  EXPECT_FALSE(good->ended());
}

TEST_F(PushFramesTest, ASharedFrameThatIsRefusedAsAWholeLosesTheContentOfItsFirstPart) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  auto first = PushTo(0, 1);
  auto second = PushTo(0, 2);
  ASSERT_THAT(Take(stream).value().parts, SizeIs(2));
  Refuse(stream, v1::Refusal::INVALID, 0, 0, 2);
  EXPECT_TRUE(first->ended());
  EXPECT_FALSE(second->ended());
  EXPECT_EQ(Take(stream).value().parts.at(0).count, 0u);
  EXPECT_EQ(Take(stream).value().parts.at(0).count, 1u);
}

TEST_F(PushFramesTest, ATickRidesOnTheFrameThatPushesShare) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(0, 2);
  ASSERT_THAT(h.Tick(), IsOk());
  const Taken taken = Take(stream).value();
  EXPECT_THAT(taken.parts, SizeIs(2));
  EXPECT_TRUE(taken.head.has_tick());
}

TEST_F(PushFramesTest, AWaitForAGrantIsNamed) {
  h.cluster.feature_level = 2;
  h.cluster.granted = 1;
  Connect();
  auto push = PushTo(0, 1);
  h.Advance(absl::Seconds(61));
  ASSERT_TRUE(push->ended());
  EXPECT_THAT(*push->status,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("which grants no more bytes")));
}

TEST_F(PushFramesTest, FramesStayBelowHalfAMegabyte) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  std::vector<float> values(2 * 10'000, 1.0f);
  std::vector<uint64_t> keys(200'000);
  std::iota(keys.begin(), keys.end(), 0);
  h.Push(table, keys, std::vector<float>(400'000, 1.0f));  // 3.2 MB over 4 segments, 2 of them here
  size_t total = 0;
  int frames = 0;
  while (auto taken = Take(stream)) {
    EXPECT_LE(taken->bytes, size_t{1} << 19);
    total += taken->bytes;
    ++frames;
  }
  EXPECT_GT(total, 1'500'000u);
  EXPECT_LE(frames, 4);
}

TEST_F(PushFramesTest, PushesThatWaitShareAFrame) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(2, 2);
  PushTo(0, 3);
  const Taken taken = Take(stream).value();
  EXPECT_FALSE(Take(stream).has_value());
  ASSERT_THAT(taken.parts, SizeIs(3));
  EXPECT_EQ(taken.parts[0].segment, SegmentId(0));
  EXPECT_EQ(taken.parts[0].number, 2u);
  EXPECT_EQ(taken.parts[1].segment, SegmentId(2));
  EXPECT_EQ(taken.parts[2].segment, SegmentId(0));
  EXPECT_EQ(taken.parts[2].number, 3u);
  const float values[] = {1, 1, 2, 2, 3, 3};
  EXPECT_EQ(taken.values, absl::string_view(reinterpret_cast<const char*>(values), sizeof(values)));
  // The shard lacks the first one: those behind it on its line go again with it, in their order.
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 2, 2, 2);
  Refuse(stream, v1::Refusal::OUT_OF_ORDER, 0, 3, 2, 2);
  const Taken again = Take(stream).value();
  ASSERT_THAT(again.parts, SizeIs(2));
  EXPECT_EQ(again.parts[0].number, 2u);
  EXPECT_EQ(again.parts[1].number, 3u);
  EXPECT_FALSE(Take(stream).has_value());
}

TEST_F(PushFramesTest, PushesOfTwoClocksDoNotShareAFrame) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  PushTo(0, 1);
  ASSERT_THAT(h.Tick(), IsOk());
  PushTo(0, 2);
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
}

TEST_F(PushFramesTest, PushesToAShardOfLevelOneDoNotShareAFrame) {
  FakeStream& stream = Connect();
  PushTo(0, 1);
  PushTo(0, 2);
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
}

TEST_F(PushFramesTest, AFrameHasAsManyPartsAsTheWireAllows) {
  h.cluster.feature_level = 2;
  FakeStream& stream = Connect();
  for (size_t i = 0; i <= wire::kFramePartsLeast; ++i) PushTo(0, 1);
  EXPECT_THAT(Take(stream).value().parts, SizeIs(wire::kFramePartsLeast));
  EXPECT_THAT(Take(stream).value().parts, SizeIs(1));
}

}  // namespace
}  // namespace paceline::sdk
