// Ticks, and the session's life with the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeStream;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

struct SessionTest : ::testing::Test {
  explicit SessionTest(CoreHarness::Setup setup = {.start_clock = 5}) : h(setup) {
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 1}).value();
  }
  uint64_t KeyIn(uint32_t segment) const {
    for (uint64_t key = 0;; ++key) {
      if (table->placement.Of(key).v == segment) return key;
    }
  }
  static std::optional<v1::PushRequest> Take(FakeStream& stream) {
    auto bytes = stream.Take();
    if (!bytes.has_value()) return std::nullopt;
    return wire::Decode<v1::PushRequest>(*bytes).value().head;
  }
  std::vector<Clock> MinClocks() const {
    std::vector<Clock> clocks;
    for (uint32_t s = 0; s < h.cluster.SegmentCount(); ++s) clocks.push_back(h.cluster.MinClock(s));
    return clocks;
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
};

TEST_F(SessionTest, StartsAtTheClockItWasGiven) {
  EXPECT_EQ(h.core->clock(), 5u);
  EXPECT_TRUE(h.core->worker());
  EXPECT_EQ(h.core->session(), SessionId(7));
}

TEST_F(SessionTest, ShowsItsSecretInEveryCallAndOnEveryStream) {
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(h.cluster.last_hello.token(), h.coordinator.secret);
  ASSERT_FALSE(h.coordinator.keep_alives.empty());
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(SessionTest, ATickReachesEveryShardWithPartsOrWithout) {
  h.Push(table, {KeyIn(0)}, {1});
  EXPECT_THAT(h.Tick(), IsOk());
  EXPECT_EQ(h.core->clock(), 6u);
  h.Run();
  EXPECT_THAT(MinClocks(), ElementsAre(6, 6, 6, 6));
  ASSERT_THAT(h.Tick(), IsOk());
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_THAT(MinClocks(), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(SessionTest, ATickRidesOnTheLastPartOfTheClockItEnds) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  FakeStream& stream = h.PushStream(0);
  h.cluster.window_bytes = 1 << 20;
  std::vector<uint64_t> many(30'000, KeyIn(0));
  h.Push(table, many, std::vector<float>(many.size(), 1));  // two parts
  ASSERT_THAT(h.Tick(), IsOk());
  h.Push(table, {KeyIn(0)}, {1});  // of the next clock
  const v1::PushRequest first = Take(stream).value();
  EXPECT_FALSE(first.has_tick());
  const v1::PushRequest second = Take(stream).value();
  EXPECT_EQ(second.tick().clock(), 7u);
  EXPECT_THAT(wire::ParseSeals(second.tick().seals()).value(),
              ElementsAre(wire::Seal{SegmentId(0), 1, Line::kArrival, 2}));
  EXPECT_FALSE(Take(stream)->has_tick());
}

TEST_F(SessionTest, TheLastTickIsToldAgainOnANewStreamAndNamesAllSegmentsOfTheShard) {
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  h.PushStream(0).Break();
  h.clock.now += absl::Seconds(2);
  h.Enter([&] { h.core->OnTime(); });
  FakeStream& stream = h.PushStream(0);
  EXPECT_TRUE(Take(stream)->has_hello());
  v1::PushReply welcome;
  welcome.mutable_welcome()->set_window_bytes(1 << 20);
  welcome.mutable_welcome()->set_frame_bytes_max(1 << 20);
  stream.Give(absl::Cord(welcome.SerializeAsString()));
  const v1::PushRequest frame = Take(stream).value();
  EXPECT_EQ(frame.tick().clock(), 6u);
  EXPECT_THAT(wire::ParseSeals(frame.tick().seals()).value(),
              ElementsAre(wire::Seal{SegmentId(0), 1, Line::kArrival, 1},
                          wire::Seal{SegmentId(2), 1, Line::kArrival, 0},
                          wire::Seal{SegmentId(0), 1, Line::kAggregated, 0},
                          wire::Seal{SegmentId(2), 1, Line::kAggregated, 0}));
  EXPECT_FALSE(Take(stream).has_value());
}

TEST_F(SessionTest, ASegmentThatMovedIsToldItsTickByTheOtherStream) {
  h.cluster.Join(99, 5);  // holds the min clock at 5, so that the tick stays soft
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_EQ(h.cluster.MinClock(0), 5u);
  h.cluster.Move(0, 1, false);
  h.coordinator.PublishMap();
  h.Run();
  h.cluster.Join(99, 9);
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  EXPECT_THAT(MinClocks(), ElementsAre(7, 7, 7, 7));
}

// It pushes to the segment no more, so no refusal tells it.
TEST_F(SessionTest, ATickThatFindsLessThanWasCommittedIsDataLoss) {
  h.cluster.Join(99, 5);  // for whom it waits, as that one waits for it
  for (float v : {1.0f, 2.0f, 3.0f}) h.Push(table, {KeyIn(0)}, {v});
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  ASSERT_THAT(h.core->failure(), IsOk());
  h.cluster.Lose(0, 1);
  h.cluster.Move(0, 1, false);
  h.coordinator.PublishMap();
  h.Run();
  EXPECT_THAT(h.core->failure(),
              StatusIs(absl::StatusCode::kDataLoss,
                       ::testing::AllOf(HasSubstr("segment 0"), HasSubstr("parts 2 to 3 are lost"))));
}

TEST_F(SessionTest, ATicksAnswerIsComparedWithTheMarkKnownWhenItWasSent) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  FakeStream& stream = h.PushStream(0);
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  const v1::PushRequest first = Take(stream).value();
  ASSERT_TRUE(first.has_tick());
  const auto answer = [&](uint64_t number, PartNumber committed, PartNumber here, SegmentId segment) {
    v1::PushReply reply;
    if (committed > 0) {
      wire::Append(wire::Mark{SegmentId(0), Line::kArrival, committed}, *reply.mutable_committed());
    }
    v1::TickAck* ack = reply.add_ticks();
    ack->set_clock(h.core->clock());
    ack->set_number(number);
    wire::Append(wire::Mark{segment, Line::kArrival, here}, *ack->mutable_here());
    stream.Give(absl::Cord(reply.SerializeAsString()));
  };
  answer(first.tick().number(), 1, 0, SegmentId(0));  // it found nothing: the part came later
  EXPECT_THAT(h.core->failure(), IsOk());
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  const v1::PushRequest second = Take(stream).value();
  ASSERT_TRUE(second.has_tick());
  answer(first.tick().number(), 0, 0, SegmentId(0));
  EXPECT_THAT(h.core->failure(), IsOk()) << "an answer to the tick before";
  answer(second.tick().number(), 0, 0, SegmentId(1));
  EXPECT_THAT(h.core->failure(), IsOk()) << "a segment that is another shard's";
  answer(second.tick().number(), 0, 1, SegmentId(0));
  EXPECT_THAT(h.core->failure(), IsOk()) << "all that was committed";
  answer(second.tick().number(), 0, 0, SegmentId(0));
  EXPECT_THAT(h.core->failure(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("parts 1 to 1 are lost")));
}

TEST_F(SessionTest, UnspokenSegmentsAreNamedInAnotherTick) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  FakeStream& stream = h.PushStream(0);
  ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_EQ(Take(stream)->tick().clock(), 7u);
  v1::PushReply reply;
  v1::TickAck* ack = reply.add_ticks();
  ack->set_clock(7);
  wire::Append(SegmentId(2), *ack->mutable_unspoken());
  stream.Give(absl::Cord(reply.SerializeAsString()));
  const v1::PushRequest again = Take(stream).value();
  EXPECT_EQ(again.tick().clock(), 7u);
  EXPECT_THAT(wire::ParseSeals(again.tick().seals()).value(),
              ElementsAre(wire::Seal{SegmentId(2), 1, Line::kArrival, 0},
                          wire::Seal{SegmentId(2), 1, Line::kAggregated, 0}));
  EXPECT_FALSE(Take(stream).has_value());
}

// As in the middle of a takeover: the new primary does not serve yet.
TEST_F(SessionTest, ASegmentThatStaysUnspokenIsNamedAgainSoonAfterItCanBeSpokenFor) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  Clock clock = 6;
  for (const absl::Duration takes :
       {absl::Milliseconds(5), absl::Milliseconds(50), absl::Milliseconds(300)}) {
    h.cluster.speechless.insert(2);
    ASSERT_THAT(h.Tick(), IsOk());
    h.Advance(takes);
    EXPECT_EQ(h.cluster.MinClock(2), clock);
    h.cluster.speechless.clear();
    h.Advance(takes + absl::Milliseconds(10));  // pauses double
    EXPECT_EQ(h.cluster.MinClock(2), ++clock) << takes;
  }
}

TEST_F(SessionTest, ATickWithoutAnswerIsToldAgain) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  FakeStream& stream = h.PushStream(0);
  ASSERT_THAT(h.Tick(), IsOk());
  Take(stream);  // lost on a stream that lives on
  h.Advance(absl::Milliseconds(500));
  EXPECT_EQ(h.cluster.MinClock(0), 6u);
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(h.cluster.MinClock(0), 7u);
}

TEST_F(SessionTest, ATickCountsOnlyWhenItsPartsAreThere) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  h.cluster.judge = [](const v1::PushRequest&, const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.segment != SegmentId(0)) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::OVER_BUDGET);
    refusal.set_retry_after_ms(50);
    return refusal;
  };
  h.Push(table, {KeyIn(0)}, {1});
  ASSERT_THAT(h.Tick(), IsOk());
  h.Run();
  // The part is held back; the tick is not, and all other segments go on.
  EXPECT_THAT(MinClocks(), ElementsAre(6, 7, 7, 7));
  h.cluster.judge = nullptr;
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(MinClocks(), ElementsAre(7, 7, 7, 7));
}

TEST_F(SessionTest, FinishFlushesAndSealsEverythingEverPushed) {
  h.cluster.auto_commit = false;
  h.Push(table, {KeyIn(0), KeyIn(1)}, {1, 1});
  h.Push(table, {KeyIn(1)}, {1});
  auto finish = h.Finish();
  h.Run();
  EXPECT_FALSE(finish->ended());
  EXPECT_THAT(h.coordinator.finishes, IsEmpty());
  EXPECT_THAT(h.Tick(), StatusIs(absl::StatusCode::kFailedPrecondition));
  h.cluster.CommitAll();
  h.Run();
  EXPECT_THAT(finish->status.value(), IsOk());
  ASSERT_THAT(h.coordinator.finishes, SizeIs(1));
  EXPECT_THAT(wire::ParseSeals(h.coordinator.finishes[0].seals()).value(),
              ElementsAre(wire::Seal{SegmentId(0), 1, Line::kArrival, 1},
                          wire::Seal{SegmentId(1), 1, Line::kArrival, 2}));
  EXPECT_THAT(h.Push(table, {1}, {1})->status.value(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("finished")));
  EXPECT_THAT(h.Finish()->status.value(), StatusIs(absl::StatusCode::kFailedPrecondition));
  auto pull = h.Pull(table, {KeyIn(0)}, 0);
  h.Run();
  EXPECT_THAT(pull->status.value(), IsOk());
}

TEST_F(SessionTest, FinishIsAskedAgainWhileTheCoordinatorIsAway) {
  h.coordinator.failure = absl::UnavailableError("connection refused");
  auto finish = h.Finish();
  h.Advance(absl::Seconds(5));
  EXPECT_FALSE(finish->ended());
  h.coordinator.failure = absl::OkStatus();
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(finish->status.value(), IsOk());
}

TEST_F(SessionTest, ADeadlineNamesTheCoordinator) {
  h.coordinator.failure = absl::UnavailableError("connection refused");
  auto finish = h.Finish(absl::Seconds(5));
  h.Advance(absl::Seconds(6));
  EXPECT_THAT(finish->status.value(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("finish: coordinator at coordinator:1: connection refused")));
}

TEST_F(SessionTest, KeepAlivesTellTheClockAndContinueWithoutACoordinator) {
  ASSERT_THAT(h.Tick(), IsOk());
  h.Advance(absl::Milliseconds(3'500));
  EXPECT_THAT(h.coordinator.keep_alives, SizeIs(3));
  EXPECT_EQ(h.coordinator.keep_alives.back().clock(), 6u);
  h.coordinator.failure = absl::UnavailableError("gone");
  h.Advance(absl::Minutes(10));
  EXPECT_THAT(h.core->failure(), IsOk());
  h.coordinator.failure = absl::OkStatus();
  const size_t before = h.coordinator.keep_alives.size();
  h.Advance(absl::Seconds(2));
  EXPECT_GT(h.coordinator.keep_alives.size(), before);
}

TEST_F(SessionTest, ABoundThatFollowsIsToldWithKeepAlives) {
  const auto weights = h.OpenTable("weights", {.dim = 1}, Ssp{.staleness = 8, .adaptive = true}).value();
  EXPECT_EQ(h.coordinator.tables_opened.back().bound_max(), 8u);
  const auto asked = [&] { return h.core->RulesOf(*weights, std::nullopt).bound.min_clock; };
  EXPECT_EQ(asked(), 0u) << "at clock 5, within the first bound";
  v1::Table changed;
  changed.set_id(weights->id.v);
  *changed.mutable_schema() = wire::ToProto(weights->schema);
  changed.set_rule_change(1);
  changed.set_rule_clock(6);
  changed.set_bound(3);
  h.coordinator.changed = {changed};
  h.coordinator.changes_version = 9;
  h.Advance(absl::Milliseconds(250));
  EXPECT_THAT(h.coordinator.keep_alives, SizeIs(2)) << "ten a second at first";
  EXPECT_EQ(h.coordinator.keep_alives.front().told_version(), 0u);
  EXPECT_EQ(h.coordinator.keep_alives.back().told_version(), 9u);
  EXPECT_EQ(h.core->changes().Known(weights->id), 1u);
  EXPECT_EQ(asked(), 0u) << "a smaller one does not count before clock 6";
  ASSERT_THAT(h.Tick(), IsOk());
  EXPECT_EQ(asked(), 3u);
  h.Advance(absl::Seconds(2));
  const size_t first = h.coordinator.keep_alives.size();
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(h.coordinator.keep_alives.size(), first + 8) << "then four";
}

// The answer to the opening may be older than a keep-alive's that came before it.
TEST_F(SessionTest, AfterATableIsOpenedAllChangesAreToldAgain) {
  h.coordinator.changes_version = 9;
  h.Advance(absl::Milliseconds(2'500));
  EXPECT_EQ(h.coordinator.keep_alives.back().told_version(), 9u);
  EXPECT_THAT(h.OpenTable("weights", {.dim = 1}), IsOk());
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(h.coordinator.keep_alives.back().told_version(), 0u);
}

TEST_F(SessionTest, AKeepAliveFromBeforeATableWasOpenedHidesNoChangesOfIt) {
  h.coordinator.changes_version = 9;
  h.Advance(absl::Milliseconds(2'500));
  ASSERT_EQ(h.coordinator.keep_alives.back().told_version(), 9u);
  h.coordinator.hold_keep_alives = true;
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.OpenTable("weights", {.dim = 1}), IsOk());
  h.coordinator.AnswerKeepAlives();
  h.Advance(absl::Milliseconds(1'500));
  EXPECT_EQ(h.coordinator.keep_alives.back().told_version(), 0u);
}

TEST_F(SessionTest, AnEvictedClientIsOver) {
  auto pull = h.Pull(table, {KeyIn(0)}, 100);
  h.coordinator.failure = absl::NotFoundError("session 7 was evicted: silent for 20 s");
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(h.core->failure(), StatusIs(absl::StatusCode::kAborted, HasSubstr("silent for 20 s")));
  EXPECT_THAT(pull->status.value(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(SessionTest, TheMapIsWatchedAgainAfterABreak) {
  h.coordinator.BreakWatches();
  h.Run();
  h.cluster.Move(0, 1, false);
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(h.core->routes()->map.version(), MapVersion(2));
}

TEST_F(SessionTest, TablesAreOpenedByName) {
  EXPECT_EQ(table->name, "w");
  const auto again = h.OpenTable("w", {.dim = 1});
  EXPECT_EQ((*again)->id, table->id);
  absl::StatusOr<std::shared_ptr<const TableInfo>> missing = absl::UnknownError("");
  h.Enter(
      [&] { h.core->OpenTable("none", nullptr, Ssp{}, [&](auto result) { missing = std::move(result); }); });
  h.Run();
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(h.OpenTable("w", {.dim = 1}, Bsp{}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'w': consistency: Bsp needs an")));
  EXPECT_THAT(h.OpenTable("agg", {.dim = 1, .aggregated = true}, Bsp{}), IsOk());
}

TEST_F(SessionTest, ATableIsDroppedByTheIdItsNameHasNow) {
  std::optional<absl::Status> dropped;
  const auto drop = [&](const std::string& name) {
    dropped.reset();
    h.Enter([&] {
      h.core->AskOfTable<v1::DropTableRequest, v1::DropTableReply>(
          &CoordinatorApi::DropTable, "drop table", name, {}, [&](auto reply) { dropped = reply.status(); });
    });
  };
  drop("w");
  h.Run();
  EXPECT_THAT(*dropped, IsOk());
  ASSERT_THAT(h.coordinator.drops, SizeIs(1));
  EXPECT_EQ(h.coordinator.drops[0].session(), 7u);
  EXPECT_EQ(h.coordinator.drops[0].table(), table->id.v);
  drop("none");
  h.Run();
  EXPECT_THAT(*dropped, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(h.coordinator.drops, SizeIs(1));
}

TEST_F(SessionTest, NewRatesAreAskedForUntilThereIsAnAnswer) {
  std::optional<absl::StatusOr<v1::ChangeRuleReply>> agreed;
  v1::ChangeRuleRequest change;
  change.set_at_clock(40);
  h.coordinator.failure = absl::UnavailableError("connection refused");
  h.Enter([&] {
    h.core->AskOfTable<v1::ChangeRuleRequest, v1::ChangeRuleReply>(&CoordinatorApi::ChangeRule,
                                                                   "change rates of table", "w", change,
                                                                   [&](auto reply) { agreed = reply; });
  });
  h.Advance(absl::Seconds(3));
  EXPECT_FALSE(agreed.has_value());
  h.coordinator.failure = absl::OkStatus();
  h.Advance(absl::Seconds(2));
  ASSERT_TRUE(agreed.has_value());
  EXPECT_EQ(agreed->value().table().rule_clock(), 41u) << "what was agreed, not what was wished";
  EXPECT_EQ(h.coordinator.rule_changes.back().table(), table->id.v);
}

TEST_F(SessionTest, APushToADroppedTableEndsAndTheNextOneGoesOn) {
  const auto other = h.OpenTable("other", {.dim = 1});
  h.cluster.judge = [&](const v1::PushRequest& head,
                        const wire::PartEntry& part) -> std::optional<v1::Refusal> {
    if (part.count == 0) {
      EXPECT_EQ(head.table(), 0u) << "it would be refused with the table's other parts";
    }
    if (head.table() != table->id.v) return std::nullopt;
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::INVALID);
    refusal.set_message("table 'w' (1) was dropped");
    return refusal;
  };
  auto dropped = h.Push(table, {KeyIn(0)}, {1});
  auto lives = h.Push(*other, {KeyIn(0)}, {1});
  h.Run();
  EXPECT_THAT(dropped->status.value(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("push to table 'w': segment 0 on shard-0: table 'w' (1)")));
  EXPECT_THAT(lives->status.value(), IsOk());
  EXPECT_EQ(h.cluster.Applied(0, 7, Line::kArrival), 1u) << "an empty part took the number";
}

TEST_F(SessionTest, ClosingTellsTheCoordinator) {
  std::optional<absl::Status> closed;
  h.Enter([&] { h.core->Close("done", absl::Seconds(1), [&](absl::Status status) { closed = status; }); });
  h.Run();
  EXPECT_THAT(*closed, IsOk());
  ASSERT_THAT(h.coordinator.closes, SizeIs(1));
  EXPECT_EQ(h.coordinator.closes[0].session(), 7u);
}

TEST_F(SessionTest, StoppingEndsOperationsUnderWay) {
  auto pull = h.Pull(table, {KeyIn(0)}, 100);
  auto push = h.Push(table, {KeyIn(0)}, {1});
  auto flush = h.Flush();
  h.Enter([&] { h.core->Stop(absl::CancelledError("the client was closed")); });
  for (const auto& outcome : {pull, push, flush}) {
    EXPECT_THAT(outcome->status.value(), StatusIs(absl::StatusCode::kCancelled));
  }
}

}  // namespace
}  // namespace paceline::sdk
