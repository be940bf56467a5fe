// Pulls: order, bounds, certificates, repeated requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeStream;
using ::testing::HasSubstr;

struct PullTest : ::testing::Test {
  explicit PullTest(CoreHarness::Setup setup = {.start_clock = 10}) : h(setup) {
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 2}, Ssp{.staleness = 3}).value();
    ranged = h.OpenTable("r", {.kind = table::Kind::kRanged, .dim = 1, .rows = 10'000}, Ssp{.staleness = 3})
                 .value();
    loose = h.OpenTable("a", {.dim = 1}, Asp{}).value();
  }

  uint64_t KeyIn(uint32_t segment) const { return KeyOf(*table, segment); }
  static uint64_t KeyOf(const TableInfo& of, uint32_t segment) {
    for (uint64_t key = 0;; ++key) {
      if (of.placement.Of(key).v == segment) return key;
    }
  }
  struct Taken {
    v1::PullRequest head;
    std::vector<wire::PartEntry> parts;
  };
  static std::optional<Taken> Take(FakeStream& stream) {
    auto bytes = stream.Take();
    if (!bytes.has_value()) return std::nullopt;
    auto frame = wire::Decode<v1::PullRequest>(*bytes).value();
    return Taken{.head = frame.head, .parts = wire::ParseParts(frame.head.parts()).value()};
  }
  static wire::Certificate Certified(Clock min_clock, PartNumber own = 0) {
    wire::Certificate certificate;
    certificate.min_clock = min_clock;
    certificate.own = own;
    return certificate;
  }
  // Answers every part of a request with the same certificate and zeros, or with a refusal.
  void Serve(FakeStream& stream, const Taken& taken, wire::Certificate certificate,
             uint64_t staleness_us = 0) {
    wire::Frame<v1::PullReply> reply;
    reply.head.set_request(taken.head.request());
    reply.head.set_wait_staleness_us(staleness_us);
    std::string values;
    for (const auto& part : taken.parts) {
      certificate.segment = part.segment;
      certificate.served = true;
      wire::Append(certificate, *reply.head.mutable_certificates());
      values.append(part.count * table->schema.dim * 4, '\0');
    }
    reply.values = absl::Cord(values);
    stream.Give(wire::Encode(reply));
  }
  static void Refuse(FakeStream& stream, const Taken& taken, v1::Refusal::Reason reason,
                     uint32_t retry_ms = 0, PartNumber expected = 0) {
    wire::Frame<v1::PullReply> reply;
    reply.head.set_request(taken.head.request());
    for (const auto& part : taken.parts) {
      wire::Certificate none;
      none.segment = part.segment;
      wire::Append(none, *reply.head.mutable_certificates());
      v1::Refusal* refusal = reply.head.add_refusals();
      refusal->set_reason(reason);
      refusal->set_segment(part.segment.v);
      refusal->set_message("worker 3 is at clock 1");
      refusal->set_retry_after_ms(retry_ms);
      refusal->set_expected(expected);
    }
    stream.Give(wire::Encode(reply));
  }
  // The pull stream to shard 0, welcomed.
  FakeStream& Connect() {
    h.Pull(loose, {KeyOf(*loose, 0)});
    h.Run();
    return h.PullStream(0);
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table, ranged, loose;
};

TEST_F(PullTest, RowsComeInTheOrderAskedForWithDuplicates) {
  std::vector<uint64_t> keys(100);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> values;
  for (uint64_t key : keys) values.insert(values.end(), {static_cast<float>(key), 0.5f});
  h.Push(table, keys, values);
  auto pull = h.Pull(table, {42, 7, 42, 99, 500, 0, 7});
  h.Run();
  ASSERT_THAT(pull->status.value(), IsOk());
  EXPECT_THAT(pull->rows, ElementsAre(42, .5, 7, .5, 42, .5, 99, .5, 0, 0, 0, .5, 7, .5));
  EXPECT_EQ(h.core->stats().rows_pulled, 7u);
}

TEST_F(PullTest, ARangeComesInOrder) {
  std::vector<float> values(10'000);
  std::iota(values.begin(), values.end(), 0.0f);
  h.PushRange(ranged, 0, values);
  auto pull = h.PullRange(ranged, 123, 7'000);
  h.Run();
  ASSERT_THAT(pull->status.value(), IsOk());
  EXPECT_EQ(pull->rows, std::vector<float>(values.begin() + 123, values.begin() + 7'123));
}

TEST_F(PullTest, AnEmptyPullEndsAtOnce) {
  EXPECT_THAT(h.Pull(table, {})->status.value(), IsOk());
}

TEST_F(PullTest, AsksForTheModelsMinClock) {
  FakeStream& stream = Connect();
  h.Pull(table, {KeyIn(0)});
  Taken taken = Take(stream).value();
  EXPECT_EQ(taken.head.min_clock(), 7u);  // 10 - 3
  EXPECT_EQ(taken.head.reader_clock_plus_one(), 11u);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Pull(table, {KeyIn(0)});
  EXPECT_EQ(Take(stream)->head.min_clock(), 8u);
  h.Pull(loose, {KeyOf(*loose, 0)});
  EXPECT_EQ(Take(stream)->head.min_clock(), 0u);
  h.Pull(loose, {KeyOf(*loose, 0)}, /*min_clock=*/5);
  EXPECT_EQ(Take(stream)->head.min_clock(), 5u);
}

TEST_F(PullTest, ABoundedReadNamesTheCallersLastPartAtTheCall) {
  FakeStream& stream = Connect();
  h.Push(table, {KeyIn(0)}, {1, 1});
  h.Push(table, {KeyIn(0)}, {1, 1});
  h.Push(loose, {KeyOf(*loose, 0)}, {1});  // another table, the same line: not waited for
  h.Pull(table, {KeyIn(0)});
  h.Push(table, {KeyIn(0)}, {1, 1});  // after it
  EXPECT_EQ(Take(stream)->parts[0].number, 2u);
}

TEST_F(PullTest, AnAsynchronousReadNamesNothing) {
  FakeStream& stream = Connect();
  h.Push(loose, {KeyOf(*loose, 0)}, {1});
  h.Pull(loose, {KeyOf(*loose, 0)});
  EXPECT_EQ(Take(stream)->parts[0].number, 0u);
}

TEST_F(PullTest, ReadsItsOwnWrites) {
  const uint64_t key = KeyIn(1);
  auto pull_before = h.Pull(table, {key});
  h.Push(table, {key}, {2, 3});
  auto pull_after = h.Pull(table, {key});
  h.Run();
  EXPECT_THAT(pull_after->rows, ElementsAre(2, 3));
  EXPECT_THAT(pull_before->status.value(), IsOk());
}

TEST_F(PullTest, WaitsForAnotherWorkerAndCountsTheStaleness) {
  h.cluster.Join(99, 10);  // another worker, who never ticks
  for (int i = 0; i < 4; ++i) ASSERT_THAT(h.Tick(), IsOk());
  auto pull = h.Pull(table, {KeyIn(0), KeyIn(0), KeyIn(1)});  // needs 11
  h.Run();
  EXPECT_FALSE(pull->ended());
  h.cluster.Join(99, 12);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_EQ(h.core->stats().staleness_rows, (std::map<uint64_t, uint64_t>{{2, 3}}));
}

TEST_F(PullTest, CatchUpWaitsForSeveralClocksAtOnce) {
  const auto eager = h.OpenTable("e", {.dim = 2}, Ssp{.staleness = 4, .catch_up = 1}).value();
  FakeStream& stream = Connect();
  const auto asks = [&] {
    h.Pull(eager, {KeyOf(*eager, 0)});
    const auto taken = Take(stream).value();
    Serve(stream, taken, Certified(std::max<Clock>(10, taken.head.min_clock())));
    return taken.head.min_clock();
  };
  EXPECT_EQ(asks(), 6u);
  std::vector<Clock> asked;
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(h.Tick(), IsOk());
    asked.push_back(asks());
  }
  // At 11, 12 and 13 what was read last, at min clock 10, serves for one clock more at least.
  EXPECT_THAT(asked, ElementsAre(7, 8, 9, 13, 11));
}

TEST_F(PullTest, AMovedPartIsAskedAgainAlone) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0), KeyIn(2)});  // both at shard 0
  h.cluster.Move(2, 1, false);
  h.Run();
  EXPECT_FALSE(pull->ended());
  EXPECT_EQ(h.core->stats().rows_pulled, 2u);  // the connecting one and one of these
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_TRUE(stream.open());
  EXPECT_EQ(h.core->stats().rows_pulled, 3u);
}

TEST_F(PullTest, UnavailableIsAskedAgainAfterItsPause) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)});
  Refuse(stream, Take(stream).value(), v1::Refusal::UNAVAILABLE, 100);
  EXPECT_FALSE(Take(stream).has_value());
  h.Advance(absl::Milliseconds(99));
  EXPECT_FALSE(pull->ended());
  h.Advance(absl::Milliseconds(100));
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_GE(h.core->stats().wait.route, 0.1);
}

TEST_F(PullTest, PausesGrowWhileAShardGoesOnRefusing) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)});
  std::vector<absl::Duration> pauses;
  std::optional<Taken> asked = Take(stream);
  for (int i = 0; i < 8; ++i) {
    Refuse(stream, asked.value(), v1::Refusal::UNAVAILABLE, 1);
    const absl::Time refused = h.clock.now;
    for (asked = Take(stream); !asked.has_value(); asked = Take(stream)) {
      h.clock.now = std::max(h.clock.now, h.core->NextDeadline());
      h.Enter([&] { h.core->OnTime(); });
    }
    pauses.push_back(h.clock.now - refused);
  }
  EXPECT_LE(pauses.front(), absl::Milliseconds(1.5));
  EXPECT_GE(pauses.back(), absl::Milliseconds(50));
  EXPECT_LE(pauses.back(), absl::Milliseconds(75));
}

TEST_F(PullTest, AfterABreakItIsAskedAgain) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0), KeyIn(1)});
  Take(stream);
  stream.Break();
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(pull->status.value(), IsOk());
  EXPECT_EQ(h.core->stats().retries, 1u);
}

TEST_F(PullTest, ASilentShardIsNotWaitedForOnceTheMapNamesItsSuccessor) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)});
  const Taken taken = Take(stream).value();
  h.unreachable.insert(FakeCluster::AddressOf(0));
  h.cluster.Move(0, 1, false);
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
  Serve(stream, taken, Certified(10));  // the late answer of the one before is void
}

TEST_F(PullTest, ACertificateBehindAnEarlierOneIsDataLoss) {
  FakeStream& stream = Connect();
  h.Pull(table, {KeyIn(0)});
  Serve(stream, Take(stream).value(), Certified(12));
  auto pull = h.Pull(table, {KeyIn(0)});
  Serve(stream, Take(stream).value(), Certified(11));
  EXPECT_THAT(pull->status.value(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("segment 0"), HasSubstr("min clock 11"), HasSubstr("12"))));
  EXPECT_THAT(h.Tick(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PullTest, AnswersMayOvertakeEachOther) {
  FakeStream& stream = Connect();
  auto first = h.Pull(table, {KeyIn(0)});
  auto second = h.Pull(table, {KeyIn(0)});
  const Taken one = Take(stream).value();
  const Taken two = Take(stream).value();
  Serve(stream, two, Certified(12));
  Serve(stream, one, Certified(11));
  EXPECT_THAT(first->status.value(), IsOk());
  EXPECT_THAT(second->status.value(), IsOk());
}

TEST_F(PullTest, OwnPartsBelowTheNamedOneAreDataLoss) {
  FakeStream& stream = Connect();
  h.Push(table, {KeyIn(0)}, {1, 1});
  auto pull = h.Pull(table, {KeyIn(0)});
  Serve(stream, Take(stream).value(), Certified(12, 0));
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("part 0")));
}

TEST_F(PullTest, AnOwnPartThatIsMissingIsAskedForAgainAndDataLossIfItWasCommitted) {
  FakeStream& stream = Connect();
  h.cluster.auto_commit = false;
  h.Push(table, {KeyIn(0)}, {1, 1});
  h.Run();
  auto pull = h.Pull(table, {KeyIn(0)}, std::nullopt, 0, absl::Milliseconds(900));
  const Taken first = Take(stream).value();
  EXPECT_EQ(first.parts[0].number, 1u);
  h.cluster.CommitAll();
  h.Run();
  Refuse(stream, first, v1::Refusal::DEADLINE, 0, /*expected=*/1);
  EXPECT_FALSE(pull->status.has_value()) << "it was not committed when this was asked";
  h.clock.now += absl::Milliseconds(100);
  h.Enter([&] { h.core->OnTime(); });
  Refuse(stream, Take(stream).value(), v1::Refusal::DEADLINE, 0, /*expected=*/1);
  EXPECT_THAT(pull->status.value(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("parts 1 to 1 are lost")));
}

TEST_F(PullTest, AValueOlderThanAskedForIsNotHandedOver) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)}, /*min_clock=*/20);
  Serve(stream, Take(stream).value(), Certified(19));
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kInternal, HasSubstr("min clock 20")));
}

TEST_F(PullTest, AReplyThatDoesNotFitIsRefused) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)});
  Taken taken = Take(stream).value();
  taken.parts[0].count = 2;  // too many values
  Serve(stream, taken, Certified(20));
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kInternal, HasSubstr("rules of the wire")));
}

TEST_F(PullTest, ADeadlineNamesTheWorkerThatTheShardWaitedFor) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)}, std::nullopt, 0, absl::Seconds(10));
  const Taken taken = Take(stream).value();
  EXPECT_GT(taken.head.timeout_ms(), 9'000u);
  EXPECT_LT(taken.head.timeout_ms(), 10'000u);  // so that its answer comes first
  h.clock.now += absl::Milliseconds(taken.head.timeout_ms());
  Refuse(stream, taken, v1::Refusal::DEADLINE);
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                             AllOf(HasSubstr("shard-0"), HasSubstr("worker 3"))));
  EXPECT_GT(h.core->stats().wait.staleness, 9.0);
}

TEST_F(PullTest, AShardThatParksForLessThanThatIsAskedAgain) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)}, std::nullopt, 0, absl::Seconds(10));
  h.clock.now += absl::Seconds(1);
  Refuse(stream, Take(stream).value(), v1::Refusal::DEADLINE);
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(pull->status.value(), IsOk());
}

TEST_F(PullTest, ADeadlineNamesTheShardThatCannotBeReached) {
  h.unreachable.insert(FakeCluster::AddressOf(1));
  auto pull = h.Pull(table, {KeyIn(1)});
  h.Run();
  h.PullStream(1).Break(absl::UnavailableError("connection refused"));
  h.Advance(absl::Seconds(61));
  EXPECT_THAT(pull->status.value(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("'w'"), HasSubstr("waited 1m"), HasSubstr("shard-1 at shard-1:1"))));
  EXPECT_NEAR(h.core->stats().wait.route, 60, 1);
}

TEST_F(PullTest, AnotherClustersShardCountsAsOneThatDoesNotAnswer) {
  h.cluster.answers_as = 8;
  auto pull = h.Pull(table, {KeyIn(1)}, 0);
  h.Advance(absl::Seconds(10));
  EXPECT_FALSE(pull->status.has_value()) << "nothing was asked of it";
  h.cluster.answers_as = 7;
  h.Advance(absl::Seconds(10));
  ASSERT_TRUE(pull->status.has_value());
  EXPECT_THAT(*pull->status, IsOk());
  const v1::Hello& hello = h.cluster.last_hello;
  EXPECT_EQ(hello.cluster(), 7u);
  EXPECT_EQ(hello.target().shard(), 1u);
  EXPECT_EQ(hello.target().incarnation(), 1u);
}

TEST_F(PullTest, EndedPullsAreNotKeptForAnAbsentShard) {
  h.unreachable.insert(FakeCluster::AddressOf(1));
  const long before = table.use_count();  // each pull holds its table
  for (int i = 0; i < 2'000; ++i) {
    auto pull = h.Pull(table, {KeyIn(1)}, std::nullopt, 0, absl::Milliseconds(10));
    h.Advance(absl::Milliseconds(10));
    ASSERT_TRUE(pull->status.has_value());
  }
  EXPECT_LT(table.use_count() - before, 200);
}

TEST_F(PullTest, InvalidEndsThePullOnly) {
  FakeStream& stream = Connect();
  auto pull = h.Pull(table, {KeyIn(0)});
  Refuse(stream, Take(stream).value(), v1::Refusal::INVALID);
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(h.core->failure(), IsOk());
}

TEST_F(PullTest, ALargePullIsAskedInPiecesOfAMegabyte) {
  std::vector<uint64_t> keys(300'000);
  std::iota(keys.begin(), keys.end(), 0);
  FakeStream& stream = Connect();
  h.Pull(table, keys);
  int frames = 0;
  uint64_t rows = 0;
  while (auto taken = Take(stream)) {
    uint64_t here = 0;
    for (const auto& part : taken->parts) here += part.count;
    EXPECT_LE(here * (8 + 8), size_t{1} << 20);
    rows += here;
    ++frames;
  }
  EXPECT_GT(rows, 100'000u);
  EXPECT_GE(frames, 2);
}

TEST_F(PullTest, TheMoreUrgentIsAskedFirst) {
  FakeStream& stream = Connect();
  h.Pull(table, {KeyIn(0)}, 1, /*priority=*/9);
  h.Pull(table, {KeyIn(0)}, 2, /*priority=*/0);
  EXPECT_EQ(Take(stream)->head.min_clock(), 2u);
  EXPECT_EQ(Take(stream)->head.min_clock(), 1u);
}

TEST_F(PullTest, TheWindowBoundsUnansweredPulls) {
  h.cluster.window_bytes = 1000;
  FakeStream& stream = Connect();
  std::vector<uint64_t> keys(100, KeyIn(0));
  h.Pull(table, keys);
  h.Pull(table, keys);
  const Taken first = Take(stream).value();
  EXPECT_FALSE(Take(stream).has_value());
  Serve(stream, first, Certified(20));
  EXPECT_TRUE(Take(stream).has_value());
}

TEST_F(PullTest, WaitsAreCountedByCause) {
  FakeStream& stream = Connect();
  h.Pull(table, {KeyIn(0)});
  const Taken taken = Take(stream).value();
  h.clock.now += absl::Seconds(3);
  Serve(stream, taken, Certified(20), /*staleness_us=*/2'000'000);
  const WaitSeconds wait = h.core->stats().wait;
  EXPECT_NEAR(wait.staleness, 2, 1e-6);
  EXPECT_NEAR(wait.network, 1, 1e-6);
  EXPECT_NEAR(wait.total(), 3, 1e-6);
}

TEST_F(PullTest, AnOperationSaysForWhomAndWhereItWaited) {
  FakeStream& stream = Connect();
  const double network_before = h.core->stats().time.overlapped.network;
  h.Pull(table, {KeyIn(0)});
  const Taken taken = Take(stream).value();
  h.clock.now += absl::Seconds(10);
  wire::Frame<v1::PullReply> reply;
  reply.head.set_request(taken.head.request());
  reply.head.set_wait_staleness_us(4'000'000);
  reply.head.set_waited_for_rank_plus_one(3);
  reply.head.set_wait_queue_us(5'000'000);
  reply.head.set_wait_apply_us(2'000'000);
  reply.head.set_wait_replication_us(1'000'000);
  wire::Certificate certificate = Certified(20);
  certificate.segment = taken.parts[0].segment;
  certificate.served = true;
  wire::Append(certificate, *reply.head.mutable_certificates());
  reply.values = absl::Cord(std::string(table->schema.dim * 4, '\0'));
  stream.Give(wire::Encode(reply));
  // Nobody waits in a test with one thread.
  const TimeSplit time = h.core->stats().time;
  EXPECT_EQ(time.all, 0);
  EXPECT_NEAR(time.overlapped.staleness, 4, 1e-6);
  EXPECT_NEAR(time.overlapped.queue, 2, 1e-6);
  EXPECT_NEAR(time.overlapped.apply, 2, 1e-6);
  EXPECT_NEAR(time.overlapped.replication, 1, 1e-6);
  EXPECT_NEAR(time.overlapped.network - network_before, 1, 1e-6);
}

struct ReaderTest : PullTest {
  ReaderTest() : PullTest({.workers = 0}) {}
};

TEST_F(ReaderTest, AReaderWithoutAClockWaitsOnlyIfItAsksTo) {
  FakeStream& stream = Connect();
  h.Pull(table, {KeyIn(0)});
  const Taken taken = Take(stream).value();
  EXPECT_EQ(taken.head.min_clock(), 0u);
  EXPECT_EQ(taken.head.reader_clock_plus_one(), 0u);
  Serve(stream, taken, Certified(0));
  EXPECT_TRUE(h.core->stats().staleness_rows.empty());
  EXPECT_THAT(h.Tick(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("workers")));
  EXPECT_THAT(h.Finish()->status.value(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace paceline::sdk
