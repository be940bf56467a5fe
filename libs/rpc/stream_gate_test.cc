#include "libs/rpc/stream_gate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::rpc {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

class StreamGateTest : public ::testing::Test {
 protected:
  StreamGate gate{{.all = 10, .of_one_connection = 4, .begun_in_a_second = 6}};
  StreamGate::Time now{std::chrono::hours(1)};
};

TEST_F(StreamGateTest, BoundsOpenStreams) {
  for (int i = 0; i < 4; ++i) EXPECT_THAT(gate.Begin("a", now).taken, IsOk());
  EXPECT_THAT(gate.Begin("a", now).taken, StatusIs(kExhausted, HasSubstr("one connection has more than 4")));
  gate.End("a");  // the one that was refused
  gate.End("a");
  EXPECT_THAT(gate.Begin("a", now).taken, IsOk());
  for (const char* peer : {"b", "c"}) {
    for (int i = 0; i < 3; ++i) EXPECT_THAT(gate.Begin(peer, now).taken, IsOk());
  }
  EXPECT_THAT(gate.Begin("d", now).taken, StatusIs(kExhausted, HasSubstr("all clients have more than 10")));
}

TEST_F(StreamGateTest, AClientThatBeginsStreamsTooFastIsCutOnce) {
  int cuts = 0;
  for (int i = 0; i < 20; ++i) {
    const StreamGate::Verdict verdict = gate.Begin("a", now);
    EXPECT_EQ(verdict.taken.ok(), i < 6);
    cuts += verdict.cut ? 1 : 0;
    gate.End("a");
  }
  EXPECT_EQ(cuts, 1);
  EXPECT_THAT(gate.Begin("b", now).taken, IsOk()) << "another one has nothing to do with it";
}

TEST_F(StreamGateTest, AClientThatBeginsStreamsSlowlyIsServed) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(gate.Begin("a", now).taken, IsOk());
    gate.End("a");
    now += std::chrono::milliseconds(200);
  }
}

TEST_F(StreamGateTest, APortThatIsUsedAgainIsAnotherConnection) {
  for (int i = 0; i < 20; ++i) {
    (void)gate.Begin("a", now);
    gate.End("a");
  }
  now += std::chrono::seconds(1);
  EXPECT_THAT(gate.Begin("b", now).taken, IsOk());
  EXPECT_THAT(gate.Begin("a", now).taken, IsOk());
}

}  // namespace
}  // namespace paceline::rpc
