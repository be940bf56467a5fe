// Sessions with secrets: a caller without the secret, or with another one, is a stranger.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kSession = 6;
constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

class SecretsTest : public ShardTest {
 protected:
  void OpenProtected() { EXPECT_EQ(Change(v1::Change::kOpen, kSession, 0, 1, kSecret).committed_size(), 2); }
  // The last number of the session's arrival line that segment 0 has applied.
  PartNumber Applied() {
    PartNumber applied = 0;
    shard.context().ForEachSegment(
        [&](SegmentHost& host) {
          const auto* session = host.primary()->segment().FindSession(SessionId(kSession));
          if (host.id() == SegmentId(0) && session != nullptr) applied = session->applied.At(Line::kArrival);
        },
        [] {});
    return applied;
  }
};

TEST_F(SecretsTest, ItsOwnerIsServed) {
  OpenProtected();
  push.Start(kSession, 1, kSecret);
  EXPECT_TRUE(push.replies.at(0).head.has_welcome());
  ExpectAlive(push, 1);
  pull.Start(kSession, 1, kSecret);
  pull.Send(Pull(1));
  EXPECT_THAT(pull.Refusals(), IsEmpty());
}

TEST_F(SecretsTest, AStrangerIsRefusedAtHello) {
  OpenProtected();
  for (const char* token : {"", "00112233445566778899aabbccddeefe"}) {
    PushWire stranger(shard.NewPushStream());
    stranger.Start(kSession, 1, token);
    ASSERT_THAT(stranger.Refusals(), SizeIs(1));
    EXPECT_EQ(stranger.Refusals()[0].reason(), v1::Refusal::FENCED);
    EXPECT_THAT(stranger.Refusals()[0].message(), HasSubstr("token"));
    EXPECT_THAT(stranger.Refusals()[0].message(), ::testing::Not(HasSubstr(kSecret)));
    stranger.Send(Push(1));
    EXPECT_EQ(stranger.Refusals().back().reason(), v1::Refusal::MALFORMED) << "nobody has said hello";
    PullWire reader(shard.NewPullStream());
    reader.Start(kSession, 1, token);
    EXPECT_EQ(reader.Refusals().at(0).reason(), v1::Refusal::FENCED);
  }
  push.Start(kSession, 1, kSecret);
  ExpectAlive(push, 1);
}

// The session opens after the stranger's Hello: the first frame that meets it decides.
TEST_F(SecretsTest, AStrangerThatCameFirstIsRefusedAtItsFirstFrame) {
  PushPullWire both(shard.NewPushPullStream());
  both.Start(kSession, 1, "a guess");
  pull.Start(kSession, 1, "a guess");
  push.Start(kSession, 1, kSecret);
  OpenProtected();
  wire::Frame<v1::PushPullRequest> frame;
  frame.head.set_table(kSparse);
  frame.head.set_line(v1::LINE_ARRIVAL);
  frame.head.set_parts(Part(0, 1, 1));
  frame.keys = Bytes<uint64_t>({KeyIn(0)});
  frame.values = Bytes<float>({9, 9});
  frame.head.set_want_reply(true);
  both.Send(frame);
  EXPECT_THAT(both.Refusals(), SizeIs(1));
  EXPECT_EQ(both.Refusals().at(0).reason(), v1::Refusal::FENCED);
  EXPECT_EQ(both.Refusals().at(0).number(), 1u);
  int read_refusals = 0;
  for (const auto& reply : both.replies) read_refusals += reply.head.read_refusals_size();
  EXPECT_EQ(read_refusals, 1);
  EXPECT_EQ(Applied(), 0u);
  pull.Send(Pull(1));
  ASSERT_THAT(pull.Refusals(), SizeIs(2)) << "one a segment";
  EXPECT_EQ(pull.Refusals()[0].reason(), v1::Refusal::FENCED);
  ExpectAlive(push, 1);
  EXPECT_EQ(Applied(), 1u) << "its owner's part is not taken for a repeated one";
}

TEST_F(SecretsTest, AStrangersTickIsNotHeard) {
  PushWire stranger(shard.NewPushStream());
  stranger.Start(kSession, 1, "a guess");
  OpenProtected();
  EXPECT_EQ(Change(v1::Change::kJoin, kSession, 1).committed_size(), 2);
  stranger.Send(Tick(9, {{.segment = SegmentId(0), .run = 2, .line = Line::kArrival, .number = 0}}));
  v1::BeatRequest beat;
  shard.Describe([&](v1::BeatRequest described) { beat = std::move(described); });
  ASSERT_EQ(beat.workers_size(), 1);
  EXPECT_EQ(beat.workers(0).clock(), 1u);
}

TEST_F(SecretsTest, ASessionOfLevelOneIsAnybodys) {
  push.Start(5, 1, "whatever");
  ExpectAlive(push, 1);
}

TEST_F(SecretsTest, ASecretThatIsNoDigestIsRefused) {
  v1::Change change = log::ChangeOf(v1::Change::kOpen, SessionId(7), JobId(1));
  change.mutable_open()->set_secret_sha256("short");
  absl::StatusOr<v1::ChangeReply> outcome = v1::ChangeReply();
  shard.MakeChange(change, [&](auto reply) { outcome = std::move(reply); });
  EXPECT_THAT(outcome,
              paceline::testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("secret_sha256")));
}

}  // namespace
}  // namespace paceline::shard
