#include "services/shard/streams/subscribe_stream.h"

#include "libs/base/little_endian.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using SubscribeWire = Wire<v1::SubscribeRequest, v1::SubscribeUpdate>;

class SubscribeStreamTest : public ShardTest {
 protected:
  explicit SubscribeStreamTest(ShardOptions options = {}) : ShardTest(std::move(options)) {
    Change(v1::Change::kJoin, 5);
    push.Start();
    subscribe.Start();
  }

  static wire::Frame<v1::SubscribeRequest> Join(uint64_t set, uint32_t table = kSparse) {
    wire::Frame<v1::SubscribeRequest> frame;
    frame.head.set_table(table);
    frame.head.set_set(set);
    frame.head.set_parts(Part(1, 1, 0) + Part(0, 1, 0));
    frame.keys = Bytes<uint64_t>({KeyIn(1), KeyIn(0)});
    return frame;
  }
  static v1::SubscribeRequest HelloOf(uint32_t level) {
    v1::SubscribeRequest request;
    request.mutable_hello()->set_feature_level(level);
    request.mutable_hello()->set_job(1);
    request.mutable_hello()->set_session(5);
    return request;
  }
  static wire::Frame<v1::SubscribeRequest> Confirm(uint64_t number) {
    wire::Frame<v1::SubscribeRequest> frame;
    frame.head.set_confirmed(number);
    return frame;
  }
  static std::shared_ptr<const log::TableInfo> TableOf(uint32_t id) {
    auto info = std::make_shared<log::TableInfo>();
    info->id = TableId(id);
    return info;
  }
  // Ends the worker's clock; its parts so far are `n` in segment 0.
  void EndClock(uint64_t at, PartNumber n) {
    push.Send(Tick(at, {{.segment = SegmentId(0), .number = n}, {.segment = SegmentId(1), .number = 0}}));
  }
  // Updates after the welcome.
  std::vector<wire::Frame<v1::SubscribeUpdate>> Updates() const {
    std::vector<wire::Frame<v1::SubscribeUpdate>> updates;
    for (const auto& reply : subscribe.replies) {
      if (!reply.head.certificates().empty()) updates.push_back(reply);
    }
    return updates;
  }

  SubscribeWire subscribe{shard.NewSubscribeStream()};
};

TEST_F(SubscribeStreamTest, AWorkerIsToldOfWhatHasChangedWhenTheMinClockAdvances) {
  ASSERT_THAT(subscribe.replies, SizeIs(1));
  EXPECT_EQ(subscribe.replies[0].head.welcome().feature_level(), kFeatureLevel);
  subscribe.Send(Join(1));
  push.Send(Push(1));
  EXPECT_THAT(Updates(), IsEmpty());
  EndClock(1, 1);
  uint64_t rows = 0;
  for (const auto& update : Updates()) {
    EXPECT_EQ(update.head.table(), kSparse);
    const std::vector<wire::Certificate> certificates =
        wire::ParseCertificates(update.head.certificates()).value();
    for (const wire::Certificate& certificate : certificates) {
      EXPECT_EQ(certificate.min_clock, 1u);
      EXPECT_EQ(certificate.epoch, Epoch(1));
      EXPECT_EQ(certificate.own, certificate.segment == SegmentId(0) ? 1u : 0u);
    }
    if (update.keys.empty()) continue;
    ++rows;
    EXPECT_EQ(update.keys, Bytes<uint64_t>({KeyIn(0)}));
    EXPECT_EQ(update.values, Bytes<float>({1, 2}));
  }
  EXPECT_EQ(rows, 1u);
  EXPECT_THAT(subscribe.Refusals(), IsEmpty());
}

TEST_F(SubscribeStreamTest, WhatWaitsOfOneTableTravelsTogether) {
  // The carrier asks for the next frame when it can write one.
  auto stream = std::make_shared<SubscribeStream>(shard.context());
  log::SetUpdate update{.table = TableOf(kSparse), .after = {}, .certificate = {}};
  update.certificate.served = true;
  stream->Updated(update);
  update.certificate.segment = SegmentId(1);
  stream->Updated(update);
  auto other = update;
  other.table = TableOf(7);
  stream->Updated(other);
  stream->Updated(update);
  absl::Cord bytes;
  ASSERT_TRUE(stream->NextFrame(&bytes));
  const auto first = wire::Decode<v1::SubscribeUpdate>(bytes).value();
  EXPECT_EQ(first.head.number(), 1u);
  EXPECT_EQ(wire::ParseCertificates(first.head.certificates())->size(), 3u);
  EXPECT_EQ(first.head.after().size(), 3 * 8u);
  EXPECT_EQ(first.head.sets().size(), 3 * 8u);
  EXPECT_EQ(first.head.changes().size(), 3 * 4u);
  ASSERT_TRUE(stream->NextFrame(&bytes));
  EXPECT_EQ(wire::Decode<v1::SubscribeUpdate>(bytes)->head.table(), 7u);
  EXPECT_FALSE(stream->NextFrame(&bytes));
  stream->OnBroken(absl::OkStatus());
}

TEST_F(SubscribeStreamTest, WhatIsLeftOutIsNamedBySegment) {
  auto stream = std::make_shared<SubscribeStream>(shard.context());
  log::SetUpdate update{.table = TableOf(kSparse), .after = {}, .certificate = {}};
  update.certificate.served = true;
  stream->Updated(update);
  update.left_out = {3, 8};
  stream->Updated(update);
  update.left_out.clear();
  stream->Updated(update);
  update.left_out = {5};
  stream->Updated(update);
  absl::Cord bytes;
  ASSERT_TRUE(stream->NextFrame(&bytes));
  const auto frame = wire::Decode<v1::SubscribeUpdate>(bytes).value();
  EXPECT_EQ(wire::ParseCertificates(frame.head.certificates())->size(), 4u);
  EXPECT_EQ(frame.head.left_out(), Bytes<uint64_t>({3, 8, 5}));
  EXPECT_EQ(frame.head.left_out_counts(), Bytes<uint32_t>({0, 2, 0, 1}));
  update.left_out.clear();
  stream->Updated(update);
  ASSERT_TRUE(stream->NextFrame(&bytes));
  EXPECT_TRUE(wire::Decode<v1::SubscribeUpdate>(bytes)->head.left_out_counts().empty());
  stream->OnBroken(absl::OkStatus());
}

// One row fits: the other one is named, and comes with the next update.
TEST_F(SubscribeStreamTest, ABudgetIsKept) {
  const auto placement = ring::Placement::Sparse(TableId(kSparse), 1).value();
  uint64_t other = KeyIn(0) + 1;
  while (placement.Of(other) != SegmentId(0)) ++other;
  wire::Frame<v1::SubscribeRequest> join;
  join.head.set_table(kSparse);
  join.head.set_set(1);
  join.head.set_parts(Part(0, 2, 0));
  join.head.set_budget(1);
  join.keys = Bytes<uint64_t>({KeyIn(0), other});
  subscribe.Send(join);
  wire::Frame<v1::PushRequest> both = Push(1);
  both.head.set_parts(Part(0, 2, 1));
  both.keys = Bytes<uint64_t>({KeyIn(0), other});
  both.values = Bytes<float>({1, 2, 3, 4});
  push.Send(both);
  EndClock(1, 1);
  std::vector<wire::Frame<v1::SubscribeUpdate>> updates = Updates();
  ASSERT_THAT(updates, SizeIs(1));
  EXPECT_EQ(updates[0].keys, Bytes<uint64_t>({KeyIn(0)}));
  EXPECT_EQ(updates[0].head.left_out(), Bytes<uint64_t>({other}));
  EndClock(2, 1);
  updates = Updates();
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[1].keys, Bytes<uint64_t>({other}));
  EXPECT_EQ(updates[1].values, Bytes<float>({3, 4}));
  EXPECT_TRUE(updates[1].head.left_out().empty());
}

TEST_F(SubscribeStreamTest, UpdatesThatAreNotConfirmedTakeRoom) {
  auto stream = std::make_shared<SubscribeStream>(shard.context());
  auto first = stream->Reserve(SubscribeStream::kUnconfirmedMax * 2);
  EXPECT_NE(first, nullptr) << "one always fits";
  EXPECT_EQ(stream->Reserve(1), nullptr);
  log::SetUpdate update{.table = TableOf(kSparse), .after = {}, .certificate = {}};
  update.room = std::move(first);
  stream->Updated(std::move(update));
  absl::Cord bytes;
  ASSERT_TRUE(stream->NextFrame(&bytes));
  EXPECT_EQ(stream->Reserve(1), nullptr) << "it was sent, and is not confirmed";
  stream->OnFrame(
      wire::Encode(wire::Frame<v1::SubscribeRequest>{.head = HelloOf(2), .keys = {}, .values = {}}));
  stream->OnFrame(wire::Encode(Confirm(1)));
  EXPECT_NE(stream->Reserve(1), nullptr);
  stream->OnBroken(absl::OkStatus());
}

TEST_F(SubscribeStreamTest, ASlowSubscriberIsToldMoreAtOnceAfterItConfirms) {
  subscribe.Send(Join(1));
  // All that replies may take is taken.
  auto taken = shard.context().replies().Take(shard.options().all_replies_bytes_max);
  push.Send(Push(1));
  EndClock(1, 1);
  push.Send(Push(2));
  EndClock(2, 2);
  EXPECT_THAT(Updates(), IsEmpty());
  taken = nullptr;
  push.Send(Push(3));
  EndClock(3, 3);
  const auto updates = Updates();
  ASSERT_FALSE(updates.empty());
  EXPECT_EQ(wire::ParseCertificates(updates.back().head.certificates())->back().min_clock, 3u);
}

TEST_F(SubscribeStreamTest, AtLevelOneItIsNotServed) {
  for (const bool hello : {false, true}) {
    SubscribeWire old(shard.NewSubscribeStream());
    old.stream().Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), &old));
    old.Send({.head = hello ? HelloOf(1) : v1::SubscribeRequest(), .keys = {}, .values = {}});
    ASSERT_TRUE(old.closed.has_value());
    EXPECT_EQ(old.closed->code(), absl::StatusCode::kUnimplemented);
    old.stream().OnBroken(absl::OkStatus());
  }
}

TEST_F(SubscribeStreamTest, RefusalsNameSegmentAndSet) {
  subscribe.Send(Join(1, kForeign));
  auto refusals = subscribe.Refusals();
  ASSERT_THAT(refusals, SizeIs(2)) << "one for each segment";
  EXPECT_EQ(refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refusals[0].number(), 1u);
  subscribe.replies.clear();
  subscribe.Send(Join(2, kRanged));
  EXPECT_THAT(subscribe.Refusals(), SizeIs(2)) << "ranged tables tell no changes";
  subscribe.replies.clear();
  subscribe.Send(Join(2));
  refusals = subscribe.Refusals();
  ASSERT_THAT(refusals, SizeIs(1));
  EXPECT_EQ(refusals[0].reason(), v1::Refusal::MALFORMED) << "numbers grow";
  subscribe.replies.clear();
  wire::Frame<v1::SubscribeRequest> elsewhere = Join(3);
  elsewhere.keys = Bytes<uint64_t>({KeyIn(0), KeyIn(1)});
  subscribe.Send(elsewhere);
  EXPECT_THAT(subscribe.Refusals(), SizeIs(2)) << "keys of other segments";
}

TEST_F(SubscribeStreamTest, AChangeThatNamesASegmentTwiceIsRefused) {
  wire::Frame<v1::SubscribeRequest> frame = Join(3);
  frame.head.set_parts(Part(0, 1, 0) + Part(0, 1, 0));
  frame.keys = Bytes<uint64_t>({KeyIn(0), KeyIn(0)});
  subscribe.Send(frame);
  const auto refusals = subscribe.Refusals();
  ASSERT_FALSE(refusals.empty());
  EXPECT_EQ(refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusals[0].message(), ::testing::HasSubstr("twice"));
}

TEST_F(SubscribeStreamTest, AnotherEpochEndsTheSets) {
  subscribe.Send(Join(1));
  ASSERT_THAT(shard.Install(MapOf(2, 1, /*epoch=*/2)), IsOk());
  const auto refusals = subscribe.Refusals();
  ASSERT_THAT(refusals, SizeIs(2));
  EXPECT_EQ(refusals[0].number(), 0u) << "of all changes";
  push.Send(Push(1));
  EndClock(1, 1);
  EXPECT_THAT(Updates(), IsEmpty());
  subscribe.Send(Join(2));
  push.Send(Push(2));
  EndClock(2, 2);
  EXPECT_FALSE(Updates().empty());
}

TEST_F(SubscribeStreamTest, ReadersUnderAValueBoundAreAnsweredAndRounded) {
  const auto rounds = [this] {
    std::vector<wire::Round> all;
    for (const auto& reply : subscribe.replies) {
      const auto told = wire::ParseRounds(reply.head.rounds());
      all.insert(all.end(), told->begin(), told->end());
    }
    return all;
  };
  const auto say = [this](uint64_t beat, wire::Reading reading) {
    wire::Frame<v1::SubscribeRequest> frame;
    frame.head.set_beat(beat);
    wire::Append(reading, *frame.head.mutable_reading());
    subscribe.Send(frame);
  };
  const auto pass = [this](absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(100)) {
      clock.now += absl::Milliseconds(100);
      shard.OnTime();
    }
  };
  say(6, {.kind = wire::Reading::Kind::kNot});
  ASSERT_THAT(rounds(), SizeIs(1));
  EXPECT_EQ(rounds()[0].number, 0u) << "it does not read";
  pass(log::SeenRounds::kSilence + absl::Milliseconds(200));
  subscribe.replies.clear();
  say(7, {.kind = wire::Reading::Kind::kJoins});
  ASSERT_THAT(rounds(), SizeIs(1));
  const wire::Round joined = rounds()[0];
  EXPECT_EQ(joined.segment, SegmentId(0));
  EXPECT_EQ(joined.epoch, Epoch(1));
  EXPECT_EQ(joined.beat, 7u);
  EXPECT_GT(joined.number, 0u);
  push.Send(Push(1));
  say(8, {.kind = wire::Reading::Kind::kReads, .round = joined.number, .wish = 1});
  ASSERT_THAT(rounds(), SizeIs(3)) << "the answer, and a round";
  const wire::Round told = rounds()[2];
  EXPECT_GT(told.version, joined.version);
  EXPECT_EQ(told.seen, 0u);
  say(9, {.kind = wire::Reading::Kind::kReads, .round = told.number, .wish = 1});
  EXPECT_EQ(rounds().back().seen, 1u);
  EXPECT_THAT(subscribe.Refusals(), IsEmpty());
  say(10, {.segment = SegmentId(9)});
  ASSERT_THAT(subscribe.Refusals(), SizeIs(1));
  EXPECT_EQ(subscribe.Refusals()[0].reason(), v1::Refusal::MALFORMED);
}

TEST_F(SubscribeStreamTest, AFrameSaysOfEachSegmentOnce) {
  wire::Frame<v1::SubscribeRequest> frame;
  for (int i = 0; i < 1000; ++i) wire::Append(wire::Reading{}, *frame.head.mutable_reading());
  const size_t before = subscribe.replies.size();
  subscribe.Send(frame);
  ASSERT_THAT(subscribe.Refusals(), SizeIs(1));
  EXPECT_EQ(subscribe.Refusals()[0].reason(), v1::Refusal::MALFORMED);
  EXPECT_THAT(subscribe.Refusals()[0].message(), ::testing::HasSubstr("1000 entries"));
  EXPECT_EQ(subscribe.replies.size(), before + 1) << "none is answered";
}

TEST_F(SubscribeStreamTest, RoundsThatWaitTravelTogetherInFramesOfBoundedSize) {
  auto stream = std::make_shared<SubscribeStream>(shard.context());
  for (int i = 0; i < 5000; ++i) stream->Told({});
  std::vector<size_t> frames;
  absl::Cord bytes;
  while (stream->NextFrame(&bytes)) {
    const auto frame = wire::Decode<v1::SubscribeUpdate>(bytes).value();
    frames.push_back(wire::ParseRounds(frame.head.rounds())->size());
  }
  EXPECT_THAT(frames, ::testing::ElementsAre(4096, 904));
  stream->OnBroken(absl::OkStatus());
}

// A client's end that reads nothing.
struct DeafPort : world::StreamPort {
  void Kick() override {}
  void ReadOn() override {}
  void Close(absl::Status why) override { closed = std::move(why); }
  std::optional<absl::Status> closed;
};

TEST_F(SubscribeStreamTest, AClientThatDoesNotReadItsRoundsIsEndedWhenManyWait) {
  auto stream = std::make_shared<SubscribeStream>(shard.context());
  const auto port = std::make_shared<DeafPort>();
  stream->Attach(port);
  stream->OnFrame(
      wire::Encode(wire::Frame<v1::SubscribeRequest>{.head = HelloOf(2), .keys = {}, .values = {}}));
  absl::Cord bytes;
  while (stream->NextFrame(&bytes)) {
  }
  const absl::Time late = clock.now + shard.options().unread_timeout + absl::Seconds(1);
  stream->OnTime(late, /*crowded=*/true);
  EXPECT_FALSE(port->closed.has_value());
  stream->Told({});
  stream->OnTime(late, /*crowded=*/false);
  EXPECT_FALSE(port->closed.has_value());
  stream->OnTime(late, /*crowded=*/true);
  ASSERT_TRUE(port->closed.has_value());
  EXPECT_EQ(port->closed->code(), absl::StatusCode::kResourceExhausted);
  stream->OnBroken(absl::OkStatus());
}

TEST_F(SubscribeStreamTest, AStreamThatBreaksLeavesNothing) {
  subscribe.Send(Join(1));
  const auto sets = [this] {
    size_t all = 0;
    shard.context().ForEachSegment([&](SegmentHost& host) { all += host.primary()->subscriptions().sets(); },
                                   [] {});
    return all;
  };
  EXPECT_EQ(sets(), 2u);
  subscribe.stream().OnBroken(absl::UnavailableError("cut"));
  EXPECT_EQ(sets(), 0u);
}

TEST_F(SubscribeStreamTest, AClientThatHalfClosesIsDone) {
  subscribe.stream().OnFinished();
  ASSERT_TRUE(subscribe.closed.has_value());
  EXPECT_THAT(*subscribe.closed, IsOk());
}

}  // namespace
}  // namespace paceline::shard
