#include "services/shard/shard.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

TEST_F(ShardTest, PushedRowsArePulledInTheRequestsOrder) {
  push.Start();
  EXPECT_EQ(push.replies.at(0).head.welcome().feature_level(), kFeatureLevel);
  push.Send(Push(1, 0, {1, 2}));
  push.Send(Push(1, 1, {3, 4}));
  EXPECT_EQ(push.replies.back().head.received(), 2u);
  pull.Start();
  pull.Send(Pull(77));
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.request(), 77u);
  EXPECT_EQ(pull.replies[1].values, Bytes<float>({3, 4, 1, 2}));
  const auto certificates = wire::ParseCertificates(pull.replies[1].head.certificates()).value();
  ASSERT_EQ(certificates.size(), 2u);
  EXPECT_EQ(certificates[0].segment, SegmentId(1));
  EXPECT_TRUE(certificates[0].served);
  EXPECT_EQ(certificates[0].own, 1u);
}

TEST_F(ShardTest, RangesOfARangedTable) {
  const auto placement = ring::Placement::Ranged(TableId(kRanged), 1, 1000, 2).value();
  const auto piece = placement.ForRange(0, 10).value().at(0);
  wire::Frame<v1::PushRequest> frame;
  frame.head.set_table(kRanged);
  frame.head.set_line(v1::LINE_ARRIVAL);
  frame.head.set_key_form(v1::KEY_FORM_RANGES);
  frame.head.set_parts(Part(piece.segment.v, 1, 1));
  frame.keys = Bytes<uint64_t>({2, 3});
  frame.values = Bytes<float>({1, 2, 3, 4, 5, 6});
  push.Start();
  push.Send(frame);
  EXPECT_THAT(push.Refusals(), ::testing::IsEmpty());
  wire::Frame<v1::PullRequest> request;
  request.head.set_table(kRanged);
  request.head.set_key_form(v1::KEY_FORM_RANGES);
  request.head.set_parts(Part(piece.segment.v, 1, 1));
  request.keys = Bytes<uint64_t>({1, 3});
  pull.Start();
  pull.Send(request);
  EXPECT_EQ(pull.replies.back().values, Bytes<float>({0, 0, 1, 2, 3, 4}));
}

TEST_F(ShardTest, ChangesAreToldWithTheirKeys) {
  push.Start();
  pull.Start();
  const auto ask = [&](std::vector<uint64_t> pairs) {
    wire::Frame<v1::PullRequest> request;
    request.head.set_table(kSparse);
    request.head.set_key_form(v1::KEY_FORM_CHANGES);
    request.head.set_parts(Part(0, 1, 0) + Part(1, 1, 0));
    request.keys = Bytes<uint64_t>(std::move(pairs));
    pull.Send(request);
    return pull.replies.back();
  };
  const auto first = ask({0, 0, 0, 0});
  EXPECT_EQ(first.head.changes(), std::string(8, '\xff'));
  const auto known = wire::ParseCertificates(first.head.certificates()).value();
  ASSERT_EQ(known.size(), 2u);
  push.Send(Push(1, 1));
  EXPECT_THAT(push.Refusals(), ::testing::IsEmpty());
  const auto next = ask({known[0].version.v, 4, known[1].version.v, 4});
  EXPECT_EQ(next.head.changes(), std::string("\0\0\0\0\1\0\0\0", 8));
  EXPECT_EQ(next.head.changed().size(), 8u);
  wire::Frame<v1::PullRequest> same = Pull(1);
  same.keys = absl::Cord(next.head.changed());
  same.head.set_parts(Part(1, 1, 0));
  pull.Send(same);
  EXPECT_EQ(pull.replies.back().values, next.values);
  EXPECT_FALSE(next.values.empty());
}

TEST_F(ShardTest, TicksCountOnceTheirPartsAreThereAndReleaseReads) {
  ASSERT_EQ(Change(v1::Change::kJoin, 5).committed_size(), 2);
  push.Start();
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/1));
  EXPECT_EQ(pull.replies.size(), 1u) << "parked";
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 1}}));
  EXPECT_EQ(pull.replies.size(), 1u) << "the sealed parts are missing";
  push.Send(Push(1, 0));
  push.Send(Push(1, 1));
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(wire::ParseCertificates(pull.replies[1].head.certificates()).value().at(0).min_clock, 1u);
}

TEST_F(ShardTest, ATickSpeaksOnlyForSegmentsThatItsStreamNamed) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 1, .number = 0}}));
  const auto ack = push.replies.back().head.ticks(0);
  EXPECT_EQ(ack.clock(), 1u);
  EXPECT_THAT(wire::ParseSegments(ack.unspoken()).value(), ::testing::ElementsAre(SegmentId(1)));

  PushWire second(shard.NewPushStream());
  second.Start();
  second.Send(Tick(2, {}));
  EXPECT_THAT(wire::ParseSegments(second.replies.back().head.ticks(0).unspoken()).value(),
              ::testing::ElementsAre(SegmentId(0), SegmentId(1)))
      << "what another stream named does not count";
  push.Send(Tick(2, {{.segment = SegmentId(1), .run = 1, .number = 0}}));
  EXPECT_THAT(wire::ParseSegments(push.replies.back().head.ticks(0).unspoken()).value(),
              ::testing::IsEmpty());
}

TEST_F(ShardTest, BadInputIsRefusedByNameAndTheStreamLivesOn) {
  push.Start();
  const auto refused = [&](const wire::Frame<v1::PushRequest>& frame, v1::Refusal::Reason reason,
                           absl::string_view names) {
    push.replies.clear();
    push.Send(frame);
    const auto refusals = push.Refusals();
    ASSERT_FALSE(refusals.empty()) << names;
    EXPECT_EQ(refusals[0].reason(), reason) << refusals[0].message();
    EXPECT_THAT(refusals[0].message(), HasSubstr(std::string(names)));
  };
  refused(Push(1, 0, {1, 2, 3}), v1::Refusal::INVALID, "values: 12 bytes");
  refused(Push(1, 0, {1, std::numeric_limits<float>::infinity()}), v1::Refusal::INVALID, "values");
  auto frame = Push(1);
  frame.head.set_table(99);
  refused(frame, v1::Refusal::INVALID, "table: 99 is unknown");
  frame.head.set_table(kForeign);
  refused(frame, v1::Refusal::INVALID, "belongs to another job");
  frame = Push(1);
  frame.head.set_parts(Part(1, 1, 1));
  refused(frame, v1::Refusal::INVALID, "lies in segment 0, its part names segment 1");
  frame.head.set_parts(Part(7, 1, 1));
  refused(frame, v1::Refusal::INVALID, "segment 7");
  frame.head.set_parts("short");
  refused(frame, v1::Refusal::MALFORMED, "parts: 5 bytes");
  frame = Push(1);
  frame.head.set_line(v1::LINE_AGGREGATED);
  refused(frame, v1::Refusal::INVALID, "line: 2; table 'table-1' is applied on arrival");
  frame.head.set_line(static_cast<v1::Line>(3));
  refused(frame, v1::Refusal::INVALID, "line: 3");
  frame = Push(1);
  frame.head.add_filters(3);
  refused(frame, v1::Refusal::INVALID, "filters: 3");
  refused(Push(2), v1::Refusal::OUT_OF_ORDER, "before part 1");
  push.replies.clear();
  push.SendRaw("\xff\xff\xff");
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::MALFORMED);
  push.SendRaw(std::string(shard.options().frame_bytes_max + 1, 'x'));
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("send smaller frames"));
  ExpectAlive(push, 1);
}

TEST_F(ShardTest, AStreamHasOneCaller) {
  push.Start();
  push.Start(6);
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_THAT(push.Refusals()[0].message(), HasSubstr("hello: a second one"));
  ExpectAlive(push, 1);
}

TEST_F(ShardTest, ATickOfAForeignJobMovesNothing) {
  Change(v1::Change::kJoin, 5);
  PushWire foreign{shard.NewPushStream()};
  foreign.Start(5, 2);
  foreign.Send(Tick(7, {{.segment = SegmentId(0), .run = 2, .line = Line::kArrival, .number = 0}}));
  pull.Start();
  pull.Send(Pull(1));
  const auto certificates = wire::ParseCertificates(pull.replies.back().head.certificates()).value();
  ASSERT_EQ(certificates.size(), 2u);
  EXPECT_EQ(certificates[0].min_clock, 0u);
}

TEST_F(ShardTest, BadPullsAreRefusedByNameAndTheStreamLivesOn) {
  pull.Start();
  auto frame = Pull(1);
  frame.head.set_table(99);
  pull.Send(frame);
  EXPECT_THAT(pull.replies.back().head.refusals(0).message(), HasSubstr("table: 99"));
  frame = Pull(2);
  frame.keys = Bytes<uint64_t>({1});
  pull.Send(frame);
  EXPECT_THAT(pull.replies.back().head.refusals(0).message(), HasSubstr("keys: 8 bytes"));
  frame = Pull(2);
  frame.head.set_parts("short");
  pull.Send(frame);
  EXPECT_EQ(pull.replies.back().head.refusals(0).reason(), v1::Refusal::MALFORMED);
  EXPECT_EQ(pull.replies.back().head.request(), 2u);
  pull.SendRaw("\xff");
  EXPECT_EQ(pull.replies.back().head.refusals(0).reason(), v1::Refusal::MALFORMED);
  pull.Send(Pull(3));
  EXPECT_EQ(pull.replies.back().values.size(), 16u);
}

TEST_F(ShardTest, HelloIsJudged) {
  wire::Frame<v1::PushRequest> old;
  old.head.mutable_hello()->set_session(5);
  push.stream().Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), &push));
  push.Send(old);
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNIMPLEMENTED);
  push.Send(Push(1));
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("hello: missing"));
  push.Start();
  ExpectAlive(push, 1);
}

TEST_F(ShardTest, ASessionOfAnotherJobIsFenced) {
  push.Start(/*session=*/5, /*job=*/2);
  auto frame = Push(1);
  frame.head.set_table(kForeign);
  frame.keys = Bytes<uint64_t>({[] {
    const auto placement = ring::Placement::Sparse(TableId(kForeign), 1).value();
    uint64_t key = 0;
    while (placement.Of(key) != SegmentId(0)) ++key;
    return key;
  }()});
  push.Send(frame);
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::FENCED);
}

TEST_F(ShardTest, ANewEpochForThisStartServesTheSegmentAfresh) {
  Shard other({}, clock, probe);
  ASSERT_THAT(other.Install(MapOf(1, 1)), IsOk()) << "maps may come before the shard knows who it is";
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(2)});
  ASSERT_THAT(other.Install(MapOf(2, 2, /*epoch=*/2)), IsOk());
  v1::BeatRequest beat;
  other.Describe([&](v1::BeatRequest now) { beat = now; });
  EXPECT_EQ(beat.primaries(), 2u);
  EXPECT_EQ(beat.lost(), 0u);
}

TEST_F(ShardTest, ANewerListOfTablesIsFetchedBeforeItJudges) {
  CatalogueVersion wanted;
  bool exists = true;
  shard.OnWantCatalogue([&](CatalogueVersion version) {
    wanted = version;
    return exists;
  });
  push.Start();
  auto frame = Push(1);
  frame.head.set_catalogue_version(4);
  push.Send(frame);
  EXPECT_EQ(wanted, CatalogueVersion(4));
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_EQ(push.Refusals().at(0).number(), 1u);
  exists = false;
  push.Send(frame);
  EXPECT_EQ(push.Refusals().at(1).reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(push.Refusals().at(1).message(), HasSubstr("catalogue_version: 4"));
  EXPECT_EQ(CommittedUpto(push), 0u);
}

TEST_F(ShardTest, ReadsEndAtTheirDeadline) {
  Change(v1::Change::kJoin, 5);
  pull.Start();
  auto frame = Pull(1, /*min_clock=*/3);
  frame.head.set_timeout_ms(500);
  pull.Send(frame);
  clock.now += absl::Milliseconds(499);
  shard.OnTime();
  EXPECT_EQ(pull.replies.size(), 1u);
  clock.now += absl::Milliseconds(1);
  shard.OnTime();
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.refusals(0).reason(), v1::Refusal::DEADLINE);
  EXPECT_EQ(pull.replies[1].values.size(), 0u);
}

// Another start of this shard, or this one, is primary of segment 0 from now on.
class MovingShardTest : public ShardTest {
 protected:
  static constexpr uint64_t kThisStart = 1;
  static constexpr uint64_t kAnotherStart = 9;
  void Move(uint64_t version, uint64_t incarnation) {
    v1::InstallRequest request = MapOf(version, kThisStart, /*epoch=*/version);
    request.mutable_map()->mutable_segments(1)->set_epoch(1);
    request.mutable_map()->mutable_segments(0)->mutable_primary()->set_incarnation(incarnation);
    ASSERT_THAT(shard.Install(request), IsOk());
  }
  const wire::Seal arrival{.segment = SegmentId(0), .run = 2, .line = Line::kArrival, .number = 0};
  const wire::Seal aggregated{.segment = SegmentId(0), .run = 2, .line = Line::kAggregated, .number = 0};
};

TEST_F(MovingShardTest, ASegmentGoesOnWhenItComesBack) {
  push.Start();
  push.Send(Push(1));
  Move(2, kAnotherStart);
  push.Send(Push(2));
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::MOVED);
  EXPECT_EQ(push.Refusals()[0].map_version(), 2u);
  Move(3, kThisStart);
  EXPECT_EQ(shard.context().host(SegmentId(0)).primary()->epoch(), Epoch(3));
  push.Send(Push(2));
  EXPECT_EQ(push.Refusals().size(), 1u) << "part 2 follows part 1, which came before the move";
}

// The segment goes and comes back before the client hears of it, which then names only what has changed.
TEST_F(MovingShardTest, InANewTenureATickSpeaksOnlyIfItNamesAllLines) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  const auto unspoken = [&] {
    return push.replies.back().head.ticks(0).unspoken().size() / sizeof(uint32_t);
  };
  push.Send(Tick(1, {arrival, aggregated}));
  EXPECT_EQ(unspoken(), 0u);
  Move(2, kAnotherStart);
  Move(3, kThisStart);
  push.Send(Tick(2, {arrival}));
  EXPECT_EQ(unspoken(), 1u) << "what the line of aggregated tables has come to is not known";
  push.Send(Tick(2, {arrival, aggregated}));
  EXPECT_EQ(unspoken(), 0u);
}

// A client that knows of a new primary before that does tells it ticks: it takes for told what no shard has
// heard.
TEST_F(MovingShardTest, ALineThatWasNamedTooEarlyIsNotKnown) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  Move(2, kAnotherStart);
  push.Send(Tick(1, {arrival, aggregated}));
  Move(3, kThisStart);
  push.Send(Tick(2, {arrival}));
  EXPECT_THAT(wire::ParseSegments(push.replies.back().head.ticks(0).unspoken()).value(),
              ::testing::ElementsAre(SegmentId(0)))
      << "of its line of aggregated tables nothing was heard";
}

// The same told to a replica, and the tick behind it, sent before its client heard that the first one did not
// count, leaves the line out.
TEST_F(MovingShardTest, ALineThatAReplicaWasToldOfStaysUnspokenUntilItIsNamedToThePrimary) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  const auto unspoken = [&] {
    return wire::ParseSegments(push.replies.back().head.ticks(0).unspoken()).value();
  };
  v1::InstallRequest replica = MapOf(2, 1);
  v1::SegmentConfig& config = *replica.mutable_map()->mutable_segments(0);
  config.set_epoch(2);
  *config.add_replicas() = config.primary();
  config.mutable_primary()->set_shard(1);
  v1::ShardInfo other = replica.map().shards(0);
  other.set_shard(1);
  other.set_name("shard-1");
  *replica.mutable_map()->add_shards() = other;
  ASSERT_THAT(shard.Install(replica), IsOk());
  push.Send(Tick(1, {arrival, aggregated}));
  EXPECT_THAT(unspoken(), ::testing::ElementsAre(SegmentId(0)));
  push.Send(Tick(2, {}));
  EXPECT_THAT(unspoken(), ::testing::ElementsAre(SegmentId(0)));

  v1::InstallRequest primary = MapOf(3, 1);
  primary.mutable_map()->mutable_segments(0)->set_epoch(3);
  *primary.mutable_map()->add_shards() = other;
  ASSERT_THAT(shard.Install(primary), IsOk());
  push.Send(Tick(3, {arrival}));
  EXPECT_THAT(unspoken(), ::testing::ElementsAre(SegmentId(0)));
  push.Send(Tick(4, {arrival, aggregated}));
  EXPECT_THAT(unspoken(), ::testing::IsEmpty());
}

// A tick is under way while the segment it names goes and comes back, and is heard as one of the new tenure.
// Its client has seen the segment go, and what it pushed there meanwhile it told to the shard between.
TEST_F(ShardTest, ATickAnewForgetsEarlierNames) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  const auto unspoken = [&] {
    return wire::ParseSegments(push.replies.back().head.ticks(0).unspoken()).value();
  };
  const auto counted = [&](uint32_t segment) {
    const log::Segment& state = shard.context().host(SegmentId(segment)).primary()->segment();
    return state.jobs().at(JobId(1)).workers().at(SessionId(5)).counted;
  };
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 0}}));
  EXPECT_THAT(unspoken(), ::testing::IsEmpty());
  auto tick = Tick(2, {{.segment = SegmentId(1), .run = 1, .number = 0}});
  tick.head.mutable_tick()->set_anew(true);
  push.Send(tick);
  EXPECT_THAT(unspoken(), ::testing::ElementsAre(SegmentId(0)));
  EXPECT_EQ(counted(0), 1u) << "parts of clock 1 may be missing";
  EXPECT_EQ(counted(1), 2u);
  push.Send(Tick(3, {}));
  EXPECT_THAT(unspoken(), ::testing::ElementsAre(SegmentId(0)));
  EXPECT_EQ(counted(1), 3u);
}

TEST_F(ShardTest, StoppingAnswersEverything) {
  Change(v1::Change::kJoin, 5);
  push.Start();
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/3));
  shard.Stop();
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.refusals(0).reason(), v1::Refusal::UNAVAILABLE);
  push.Send(Push(1));
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNAVAILABLE);
}

TEST_F(ShardTest, AFinishedStreamIsClosedWhenAllIsAnswered) {
  Change(v1::Change::kJoin, 5);
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/1));
  pull.stream().OnFinished();
  EXPECT_FALSE(pull.closed.has_value());
  push.Start();
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 0}}));
  push.stream().OnFinished();
  EXPECT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.closed, absl::OkStatus());
  EXPECT_EQ(push.closed, absl::OkStatus());
}

TEST_F(ShardTest, AnAggregatedFrameIsReceivedAtOnceAndCommittedByTheOthersTick) {
  Change(v1::Change::kOpen, 6);
  for (const uint64_t session : {5, 6}) Change(v1::Change::kJoin, session);
  PushWire other{shard.NewPushStream()};
  push.Start(5);
  other.Start(6);
  const auto placement = ring::Placement::Sparse(TableId(kAggregated), 1).value();
  uint64_t key = 0;
  while (placement.Of(key) != SegmentId(0)) ++key;
  auto frame = Push(1);
  frame.head.set_table(kAggregated);
  frame.head.set_line(v1::LINE_AGGREGATED);
  frame.keys = Bytes<uint64_t>({key});
  push.Send(frame);
  EXPECT_EQ(push.replies.back().head.received(), 1u);
  EXPECT_EQ(CommittedUpto(push), 0u);
  EXPECT_GT(shard.staged_bytes(), 0u);
  const wire::Seal none{.segment = SegmentId(0), .run = 2, .line = Line::kAggregated, .number = 0};
  const wire::Seal one{.segment = SegmentId(0), .run = 1, .line = Line::kAggregated, .number = 1};
  const wire::Seal second{.segment = SegmentId(1), .run = 1, .line = Line::kAggregated, .number = 0};
  push.Send(Tick(1, {one, second}));
  EXPECT_EQ(CommittedUpto(push), 0u);
  other.Send(Tick(1, {none}));
  EXPECT_EQ(CommittedUpto(push), 1u) << "its stream was woken";
  EXPECT_EQ(shard.staged_bytes(), 0u);
  EXPECT_THAT(push.Refusals(), ::testing::IsEmpty());
}

TEST_F(ShardTest, DescribesItself) {
  Change(v1::Change::kJoin, 5, /*start=*/3);
  push.Start();
  auto frame = Push(1);
  frame.head.set_clock(3);
  push.Send(frame);
  v1::BeatRequest beat;
  shard.Describe([&](v1::BeatRequest now) { beat = now; });
  EXPECT_EQ(beat.rows(), 1u);
  EXPECT_EQ(beat.rows_pushed(), 1u);
  EXPECT_GT(beat.bytes(), 0u);
  ASSERT_EQ(beat.workers_size(), 1);
  EXPECT_EQ(beat.workers(0).clock(), 3u);
}

TEST_F(ShardTest, BeatsNameTheSlowestWorkerAndTheNewest) {
  for (const auto& [session, start] : {std::pair(6, 4), std::pair(7, 9), std::pair(8, 5)}) {
    Change(v1::Change::kOpen, static_cast<uint64_t>(session));
    Change(v1::Change::kJoin, static_cast<uint64_t>(session), static_cast<uint64_t>(start));
  }
  v1::BeatRequest beat;
  shard.Describe([&](v1::BeatRequest now) { beat = now; });
  ASSERT_EQ(beat.workers_size(), 2);
  EXPECT_EQ(beat.workers(0).session(), 6u);
  EXPECT_EQ(beat.workers(0).clock(), 4u);
  EXPECT_EQ(beat.workers(1).session(), 7u);
  EXPECT_EQ(beat.workers(1).clock(), 9u);
}

}  // namespace
}  // namespace paceline::shard
