// What a frame's part table may say.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

TEST_F(ShardTest, AFrameMayHaveSeveralPartsOfASegment) {
  push.Start();
  wire::Frame<v1::PushRequest> frame = Push(1);
  frame.head.set_parts(Part(0, 1, 1) + Part(0, 0, 2) + Part(0, 0, 3) + Part(0, 0, 5));
  push.Send(frame);
  ASSERT_EQ(push.Refusals().size(), 1u) << "the gap";
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::OUT_OF_ORDER);
  EXPECT_EQ(push.Refusals()[0].expected(), 4u);
  ExpectAlive(push, 4);
}

TEST_F(ShardTest, APullThatNamesASegmentTwiceIsRefused) {
  pull.Start();
  wire::Frame<v1::PullRequest> request = Pull(1);
  request.head.set_parts(Part(0, 1, 0) + Part(0, 1, 0));
  pull.Send(request);
  ASSERT_EQ(pull.replies.back().head.refusals_size(), 1);
  EXPECT_THAT(pull.replies.back().head.refusals(0).message(), HasSubstr("twice"));
}

TEST_F(ShardTest, AFrameOfTooManyPartsIsRefusedOnce) {
  push.Start();
  wire::Frame<v1::PushRequest> frame = Push(1);
  std::string parts;
  for (size_t i = 0; i <= wire::kFramePartsLeast; ++i) parts += Part(0, 0, 1);
  frame.head.set_parts(parts);
  push.Send(frame);
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_THAT(push.Refusals()[0].message(), HasSubstr("parts: 1025 in one frame; at most 1024"));
  ExpectAlive(push, 1);
}

}  // namespace
}  // namespace paceline::shard
