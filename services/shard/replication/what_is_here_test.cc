// A shard's answers about parts that a session was told are committed, and that are not here.
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class WhatIsHereTest : public ShardTest {};

TEST_F(WhatIsHereTest, ATickIsAnsweredWithTheAppliedNumberWhereItIsLower) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  push.Send(Push(1, 0));
  push.Send(Push(2, 0));
  const auto here = [&] { return wire::ParseMarks(push.replies.back().head.ticks(0).here()).value(); };
  auto tick = Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 2},
                       {.segment = SegmentId(0), .run = 1, .line = Line::kAggregated, .number = 4}});
  tick.head.mutable_tick()->set_number(77);
  push.Send(tick);
  EXPECT_EQ(push.replies.back().head.ticks(0).number(), 77u);
  EXPECT_THAT(here(), ::testing::ElementsAre(
                          wire::Mark{.segment = SegmentId(0), .line = Line::kAggregated, .number = 0},
                          wire::Mark{.segment = SegmentId(1), .line = Line::kArrival, .number = 0}));
  push.Send(Push(1, 1));
  push.Send(Tick(2, {}));
  EXPECT_THAT(here(), ::testing::Contains(wire::Mark{SegmentId(1), Line::kArrival, 1}))
      << "what an earlier tick said still counts";
}

TEST_F(WhatIsHereTest, ATickOfAMissingSessionIsToldSoUnlessItWasClosed) {
  push.Start(/*session=*/6);  // as after a rollback to before its opening
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 1}}));
  EXPECT_EQ(wire::ParseMarks(push.replies.back().head.ticks(0).here())->size(), 2u);
  Change(v1::Change::kOpen, 6);
  Change(v1::Change::kEvict, 6);
  push.Send(Tick(2, {}));
  EXPECT_EQ(push.replies.back().head.ticks(0).here(), "");
}

TEST_F(WhatIsHereTest, AReadThatLacksItsReadersPartSoonGetsTheAppliedNumber) {
  push.Start();
  push.Send(Push(1));
  pull.Start();
  auto frame = Pull(1);
  frame.head.set_parts(Part(0, 1, /*number=*/3));
  frame.keys = Bytes<uint64_t>({KeyIn(0)});
  pull.Send(frame);
  clock.now += log::Primary::kOwnPartMax - absl::Milliseconds(1);
  shard.OnTime();
  EXPECT_EQ(pull.replies.size(), 1u) << "it may be on its way";
  clock.now += absl::Milliseconds(1);
  shard.OnTime();
  ASSERT_EQ(pull.replies.size(), 2u);
  const v1::Refusal& refusal = pull.replies[1].head.refusals(0);
  EXPECT_EQ(refusal.reason(), v1::Refusal::DEADLINE);
  EXPECT_EQ(refusal.expected(), 2u);
  EXPECT_EQ(refusal.number(), 3u);
  EXPECT_THAT(refusal.message(), HasSubstr("the reader's own part 3 (applied: 1)"));
}

}  // namespace
}  // namespace paceline::shard
