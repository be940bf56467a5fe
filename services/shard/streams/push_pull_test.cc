// Pushes that want their rows back.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class PushPullTest : public ShardTest {
 protected:
  // Adds `row` to the key of each segment of `parts` and wants it back.
  static wire::Frame<v1::PushPullRequest> PushPull(uint64_t request, const std::string& parts,
                                                   std::vector<float> row = {1, 2}, uint64_t min_clock = 0) {
    wire::Frame<v1::PushPullRequest> frame;
    frame.head.set_request(request);
    frame.head.set_want_reply(true);
    frame.head.set_min_clock(min_clock);
    frame.head.set_table(kSparse);
    frame.head.set_line(v1::LINE_ARRIVAL);
    frame.head.set_parts(parts);
    const std::vector<wire::PartEntry> entries = wire::ParseParts(parts).value();
    for (const wire::PartEntry& part : entries) {
      frame.keys.Append(Bytes<uint64_t>({KeyIn(part.segment.v)}));
      frame.values.Append(Bytes(row));
    }
    return frame;
  }
  // The answers to requests for rows that have come.
  std::vector<wire::Frame<v1::PushPullReply>> Rows() const {
    std::vector<wire::Frame<v1::PushPullReply>> rows;
    for (const auto& reply : both.replies) {
      if (reply.head.request() != 0) rows.push_back(reply);
    }
    return rows;
  }
  uint64_t BothCommitted(uint32_t segment) const {
    uint64_t upto = 0;
    for (const auto& reply : both.replies) {
      const std::vector<wire::Mark> marks = wire::ParseMarks(reply.head.committed()).value();
      for (const wire::Mark& mark : marks) {
        if (mark.segment.v == segment) upto = std::max(upto, mark.number);
      }
    }
    return upto;
  }

  PushPullWire both{shard.NewPushPullStream()};
};

TEST_F(PushPullTest, RowsComeBackWithTheirPushApplied) {
  both.Start();
  EXPECT_EQ(both.replies.at(0).head.welcome().feature_level(), kFeatureLevel);
  both.Send(PushPull(7, Part(1, 1, 1) + Part(0, 1, 1), {1, 2}));
  both.Send(PushPull(8, Part(0, 1, 2), {10, 20}));
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[0].head.request(), 7u);
  EXPECT_EQ(Rows()[0].values, Bytes<float>({1, 2, 1, 2}));
  EXPECT_EQ(Rows()[1].head.request(), 8u);
  EXPECT_EQ(Rows()[1].values, Bytes<float>({11, 22}));
  const auto certificates = wire::ParseCertificates(Rows()[0].head.certificates()).value();
  ASSERT_EQ(certificates.size(), 2u);
  EXPECT_EQ(certificates[0].segment, SegmentId(1));
  EXPECT_TRUE(certificates[0].served);
  EXPECT_EQ(certificates[0].own, 1u);
  EXPECT_EQ(both.replies.back().head.received(), 2u);
  EXPECT_EQ(BothCommitted(0), 2u);
  EXPECT_THAT(both.Refusals(), ::testing::IsEmpty());
}

TEST_F(PushPullTest, OnAPushPullStreamPartsMayComeWithoutWantingTheirRows) {
  both.Start();
  wire::Frame<v1::PushPullRequest> frame = PushPull(7, Part(0, 1, 1));
  frame.head.set_want_reply(false);
  both.Send(frame);
  EXPECT_EQ(Rows().size(), 0u);
  EXPECT_EQ(BothCommitted(0), 1u);
}

TEST_F(PushPullTest, RowsThatWaitForTheMinClockHoldUpNoTick) {
  Change(v1::Change::kJoin, 5);
  both.Start();
  both.Send(PushPull(7, Part(0, 1, 1), {1, 2}, /*min_clock=*/1));
  EXPECT_EQ(Rows().size(), 0u);
  EXPECT_EQ(BothCommitted(0), 1u);
  EXPECT_EQ(both.replies.back().head.received(), 1u);
  both.Send(PushPull(8, Part(0, 1, 2), {1, 2}));
  ASSERT_EQ(Rows().size(), 1u);
  EXPECT_EQ(Rows()[0].head.request(), 8u);
  both.Send(Tick<v1::PushPullRequest>(1, {{.segment = SegmentId(0), .run = 1, .number = 2},
                                          {.segment = SegmentId(1), .run = 1, .number = 0}}));
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[1].head.request(), 7u);
  EXPECT_EQ(Rows()[1].values, Bytes<float>({2, 4}));
}

TEST_F(PushPullTest, ARepeatedPartIsReadAgainAndAppliedOnce) {
  both.Start();
  both.Send(PushPull(7, Part(0, 1, 1), {1, 2}));
  both.Send(PushPull(9, Part(0, 1, 1), {1, 2}));
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[1].head.request(), 9u);
  EXPECT_EQ(Rows()[1].values, Bytes<float>({1, 2}));
}

TEST_F(PushPullTest, ARefusedPartHasNoRowsAndTheOthersHaveTheirs) {
  both.Start();
  both.Send(PushPull(7, Part(0, 1, 2) + Part(1, 1, 1), {1, 2}));  // the first one of segment 0 is missing
  ASSERT_EQ(Rows().size(), 1u);
  EXPECT_EQ(Rows()[0].values, Bytes<float>({1, 2}));
  const auto certificates = wire::ParseCertificates(Rows()[0].head.certificates()).value();
  EXPECT_FALSE(certificates.at(0).served);
  EXPECT_TRUE(certificates.at(1).served);
  ASSERT_EQ(Rows()[0].head.read_refusals_size(), 1);
  EXPECT_EQ(Rows()[0].head.read_refusals(0).reason(), v1::Refusal::OUT_OF_ORDER);
  ASSERT_EQ(both.Refusals().size(), 1u);
  EXPECT_EQ(both.Refusals()[0].expected(), 1u);
  // A frame that is refused as a whole.
  both.replies.clear();
  wire::Frame<v1::PushPullRequest> wrong = PushPull(8, Part(0, 1, 1), {1, 2, 3});
  both.Send(wrong);
  ASSERT_EQ(Rows().size(), 1u);
  EXPECT_EQ(Rows()[0].head.request(), 8u);
  EXPECT_EQ(Rows()[0].head.certificates(), "");
  EXPECT_THAT(Rows()[0].head.read_refusals(0).message(), HasSubstr("width"));
  EXPECT_EQ(both.Refusals().size(), 1u);
}

TEST_F(PushPullTest, APushPullStreamIsClosedWhenItsRowsAreSent) {
  Change(v1::Change::kJoin, 5);
  both.Start();
  both.Send(PushPull(7, Part(0, 1, 1), {1, 2}, /*min_clock=*/1));
  both.stream().OnFinished();
  EXPECT_FALSE(both.closed.has_value());
  push.Start();
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 1, .number = 1},
                     {.segment = SegmentId(1), .run = 1, .number = 0}}));
  EXPECT_EQ(Rows().size(), 1u);
  EXPECT_EQ(both.closed, absl::OkStatus());
}

TEST_F(PushPullTest, APushStreamKnowsNoRows) {
  push.Start();
  push.stream().OnFrame(wire::Encode(PushPull(7, Part(0, 1, 1))));
  EXPECT_EQ(CommittedUpto(push), 1u);
  EXPECT_EQ(shard.view()->map->version(), MapVersion(1));
  for (const auto& reply : push.replies) EXPECT_TRUE(reply.values.empty());
}

// A shard that was started again has clients before it has a map. What a tick named then its client takes for
// told; the line that a later tick leaves out is not known.
class ShardWithoutMapTest : public ShardTest {
 protected:
  ShardWithoutMapTest() { late.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)}); }
  Shard late{ShardOptions{}, clock, probe};
};

TEST_F(ShardWithoutMapTest, SegmentsNamedBeforeTheFirstMapAreNotKnown) {
  PushWire wire(late.NewPushStream());
  wire.Start();
  const wire::Seal arrival{.segment = SegmentId(0), .run = 2, .line = Line::kArrival, .number = 0};
  const wire::Seal aggregated{.segment = SegmentId(0), .run = 2, .line = Line::kAggregated, .number = 7};
  wire.Send(Tick(1, {arrival, aggregated}));
  ASSERT_THAT(late.Install(MapOf(1, 1)), IsOk());
  const auto unspoken = [&] {
    return wire.replies.back().head.ticks(0).unspoken().size() / sizeof(uint32_t);
  };
  wire.Send(Tick(2, {arrival}));
  EXPECT_EQ(unspoken(), 2u);
  wire.Send(Tick(2, {arrival, aggregated}));
  EXPECT_EQ(unspoken(), 0u);
}

// A client that reads only when it is told to.
class LateReader : public PushWire {
 public:
  using PushWire::PushWire;
  void Kick() override {
    if (reads) PushWire::Kick();
  }
  bool reads = true;
};

TEST_F(PushPullTest, MarksThatWaitAreOneOfEachSegment) {
  constexpr uint64_t kParts = 1'000;
  LateReader late(shard.NewPushStream());
  late.Start();
  late.reads = false;
  late.replies.clear();
  for (uint64_t number = 1; number <= kParts; ++number) {
    for (const uint32_t segment : {1u, 0u}) late.Send(Push(number, segment));
  }
  late.reads = true;
  late.Kick();
  ASSERT_EQ(late.replies.size(), 1u);
  const auto marks = wire::ParseMarks(late.replies[0].head.committed()).value();
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0], (wire::Mark{.segment = SegmentId(0), .line = Line::kArrival, .number = kParts}));
  EXPECT_EQ(marks[1], (wire::Mark{.segment = SegmentId(1), .line = Line::kArrival, .number = kParts}));
}

}  // namespace
}  // namespace paceline::shard
