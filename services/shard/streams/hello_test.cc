// The first frame of a stream: its content, and its refusals.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class HelloTest : public ShardTest {
 protected:
  template <class WireType, class Frame>
  static void SendBesideHello(WireType& wire, Frame frame) {
    wire.stream().Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), &wire));
    frame.head.mutable_hello()->set_feature_level(1);
    frame.head.mutable_hello()->set_job(1);
    frame.head.mutable_hello()->set_session(5);
    wire.Send(frame);
  }
};

TEST_F(HelloTest, FieldsBesideTheHelloAreRefused) {
  SendBesideHello(push, Push(1));
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::MALFORMED);
  EXPECT_THAT(push.Refusals()[0].message(), HasSubstr("hello: its frame has other fields too"));
  EXPECT_FALSE(push.replies[0].head.has_welcome());
  push.Start();
  ExpectAlive(push, 1);
}

TEST_F(HelloTest, ATickBesideItIsNotLostSilently) {
  SendBesideHello(push, Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 0}}));
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::MALFORMED);
}

TEST_F(HelloTest, APullBesideItIsNotLostSilently) {
  SendBesideHello(pull, Pull(7));
  ASSERT_EQ(pull.Refusals().size(), 1u);
  EXPECT_EQ(pull.Refusals()[0].reason(), v1::Refusal::MALFORMED);
  pull.Start();
  pull.Send(Pull(8));
  EXPECT_EQ(pull.replies.back().head.request(), 8u);
}

TEST_F(HelloTest, AClosedSessionIsToldAtOnce) {
  Change(v1::Change::kEvict, 5);
  push.Start();
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::FENCED);
  EXPECT_THAT(push.Refusals()[0].message(), HasSubstr("session 5 of job 1 is not open"));
  pull.Start();
  ASSERT_EQ(pull.Refusals().size(), 1u);
  EXPECT_EQ(pull.Refusals()[0].reason(), v1::Refusal::FENCED);
}

TEST_F(HelloTest, AnOpenSessionAndOneThatIsNotKnownYetAreNotTurnedAway) {
  push.Start();
  pull.Start(/*session=*/6);  // it may be opened in a moment
  EXPECT_THAT(push.Refusals(), ::testing::IsEmpty());
  EXPECT_THAT(pull.Refusals(), ::testing::IsEmpty());
}

TEST_F(HelloTest, AStreamThatSaidNothingElseEnds) {
  pull.Start();
  pull.stream().OnFinished();
  EXPECT_TRUE(pull.closed.has_value());
}

}  // namespace
}  // namespace paceline::shard
