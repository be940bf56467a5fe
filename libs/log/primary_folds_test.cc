// Aggregated tables at the primary: refusals, folds of clocks, and acknowledgements.
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/test_util/fold_fixture.h"

namespace paceline::log {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(FoldTest, AClockIsFoldedWhenTheLastWorkerTicksAndNotBefore) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0, {{5, 1.0f}}));
  EXPECT_FALSE(Push(kA, 2, 0, {{5, 2.0f}, {6, 1.0f}}));
  EXPECT_FALSE(Push(kB, 1, 0, {{5, 4.0f}}));
  primary->Tick(kA, 1, {{0, 2}});
  EXPECT_EQ(Value(5), 0.0f) << "nothing is seen of a clock that is not complete";
  EXPECT_THAT(acks[kA]->marks, IsEmpty());
  EXPECT_GT(budget->staged, 0u);
  const auto parked = Pull(kA, 1, 5);
  EXPECT_EQ(parked->certificate, std::nullopt);
  primary->Tick(kB, 1, {{0, 1}});
  ASSERT_TRUE(parked->certificate);
  EXPECT_EQ(parked->certificate->min_clock, 1u);
  EXPECT_EQ(Value(5), 7.0f);
  EXPECT_EQ(Value(6), 1.0f);
  EXPECT_THAT(acks[kA]->marks, ElementsAre(std::pair(Line::kAggregated, 2u)));
  EXPECT_THAT(acks[kB]->marks, ElementsAre(std::pair(Line::kAggregated, 1u)));
  EXPECT_EQ(acks[kA]->wakes, 1) << "it was another's tick that did it";
  EXPECT_EQ(budget->staged, 0u);
  EXPECT_EQ(budget->rows, 2u) << "each row once";
  ASSERT_THAT(budget->folds, SizeIs(1));
  EXPECT_EQ(primary->segment().FindSession(kA)->applied.At(Line::kAggregated), 2u);
}

TEST_F(FoldTest, AClockWaitsForThePartsItsTicksSeal) {
  JoinBoth();
  primary->Tick(kB, 1, {});
  primary->Tick(kA, 1, {{0, 2}});
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_EQ(MinClock(), 0u);
  EXPECT_FALSE(Push(kA, 2, 0));
  EXPECT_EQ(MinClock(), 1u);
  EXPECT_EQ(Value(5), 2.0f);
}

TEST_F(FoldTest, ClocksWithoutUpdatesArePassedAndTheOthersFoldedOneByOne) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 1));
  for (const SessionId session : {kA, kB}) primary->Tick(session, 4, {{0, session == kA ? 1u : 0u}});
  EXPECT_EQ(MinClock(), 4u);
  ASSERT_THAT(budget->folds, SizeIs(1));
  EXPECT_EQ(budget->folds[0].clock, 1u);
}

TEST_F(FoldTest, APartTakenBeforeIsAcknowledgedByItsFoldAlone) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0));
  const auto old = acks[kA];
  acks[kA] = std::make_shared<Acks>();  // another stream
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_THAT(acks[kA]->marks, IsEmpty());
  primary->Tick(kA, 1, {{0, 1}});
  primary->Tick(kB, 1, {});
  EXPECT_EQ(Value(5), 1.0f);
  EXPECT_THAT(acks[kA]->marks, SizeIs(1));
  EXPECT_THAT(old->marks, SizeIs(1)) << "which of the two lives is not known here";
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_THAT(acks[kA]->marks, SizeIs(2)) << "now it is there";
}

TEST_F(FoldTest, AGapNamesTheNumberAfterTheLastOneStaged) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0));
  const auto refusal = Push(kA, 3, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OUT_OF_ORDER);
  EXPECT_EQ(refusal->expected(), 2u);
  EXPECT_EQ(refusal->line(), v1::LINE_AGGREGATED);
}

TEST_F(FoldTest, ALineTakesItsOwnTablesOnly) {
  JoinBoth();
  line = Line::kArrival;
  auto refusal = Push(kA, 1, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("'folded' is aggregated, its parts go on line 2"));
  line = Line::kAggregated;
  table = SumTable(kJob);
  refusal = Push(kA, 1, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("'sum' is applied on arrival, its parts go on line 1"));
}

TEST_F(FoldTest, OnlyWorkersPushButEmptyPartsMayComeFromAnySession) {
  JoinBoth();
  const auto refusal = Push(kReader, 1, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("9 is not a worker"));
  EXPECT_FALSE(Push(kReader, 1, 0, {}));
  EXPECT_THAT(acks[kReader]->marks, ElementsAre(std::pair(Line::kAggregated, 1u)));
}

TEST_F(FoldTest, ClocksThatAreOverAreRefused) {
  JoinBoth(/*start=*/4);
  auto refusal = Push(kA, 1, 3);
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->message(), HasSubstr("clock: 3; this worker starts at 4"));
  for (const SessionId session : {kA, kB}) primary->Tick(session, 6, {});
  refusal = Push(kA, 1, 5);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("clock: 5 is complete already, the min clock is 6"));
  EXPECT_FALSE(Push(kA, 1, 7));
  refusal = Push(kA, 2, 6);
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->message(), HasSubstr("comes after a part of clock 7"));
  EXPECT_FALSE(Push(kA, 2, 6, {})) << "an empty part stands for one that was refused";
  primary->Tick(kB, 7, {});
  primary->Tick(kA, 7, {});
  refusal = Push(kB, 1, 6);
  ASSERT_TRUE(refusal) << "sealed by its own tick";
}

TEST_F(FoldTest, ClocksTooFarAheadWaitForTheSlowest) {
  JoinBoth();
  primary->Tick(kA, 2, {});
  const auto refusal = Push(kA, 1, 2);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_EQ(refusal->expected(), 1u);
  EXPECT_GT(refusal->retry_after_ms(), 0u);
  EXPECT_THAT(refusal->message(),
              AllOf(HasSubstr("for clocks 0 and 1 as yet"), HasSubstr("worker 1 (session 8) at clock 0")));
  EXPECT_TRUE(Push(kA, 1, 2, {})) << "nor may empty ones pile up";
  primary->Tick(kB, 1, {});
  EXPECT_FALSE(Push(kA, 1, 2));
}

// As a client tells them on a new stream, or when it was too fast for the one before.
TEST_F(FoldTest, ATickMaySkipClocksOfWhichPartsAreStillToCome) {
  JoinBoth();
  primary->Tick(kB, 9, {});
  primary->Tick(kA, 4, {{0, 4}});
  for (const Clock clock : {0, 1, 2, 3}) {
    EXPECT_FALSE(Push(kA, clock + 1, clock, {{5, 1.0f}})) << "it would wait for nobody but itself";
  }
  EXPECT_EQ(MinClock(), 4u);
  EXPECT_EQ(Value(5), 4.0f);
  EXPECT_THAT(budget->folds, SizeIs(4));
}

TEST_F(FoldTest, APartOfALaterClockShowsThatThoseBeforeAreOver) {
  JoinBoth();
  primary->Tick(kB, 9, {});
  primary->Tick(kA, 4, {{0, 2}});
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_EQ(MinClock(), 0u);
  EXPECT_FALSE(Push(kA, 2, 3)) << "of the clocks between it has no parts";
  EXPECT_EQ(MinClock(), 4u);
  EXPECT_THAT(budget->folds, SizeIs(2));
}

TEST_F(FoldTest, TheFastGetHalfOfTheStagingBudget) {
  JoinBoth();
  Update one = MakeUpdate(kA, 1, {{5, 1.0f}}, 0);
  budget->max = 4 * Staging::BytesOf(one);
  EXPECT_FALSE(Push(kA, 1, 1));
  EXPECT_FALSE(Push(kA, 2, 1));
  auto refusal = Push(kA, 3, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_GT(refusal->retry_after_ms(), 0u);
  EXPECT_THAT(refusal->message(), AllOf(HasSubstr("--staging-budget"), HasSubstr("worker 0 (session 7)")));
  EXPECT_FALSE(Push(kB, 1, 0)) << "the slow one, for whom all wait";
  EXPECT_FALSE(Push(kB, 2, 0));
  now = absl::UnixEpoch();
  refusal = Push(kB, 3, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET) << "another segment's fold may make room";
  now += Folds::kRoomWaitMax + absl::Seconds(1);
  refusal = Push(kB, 3, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID) << "those that are here wait for it";
  EXPECT_THAT(refusal->message(), HasSubstr("--staging-budget to twice the updates of a clock"));
  primary->Tick(kA, 1, {});
  primary->Tick(kB, 1, {{0, 2}});
  EXPECT_EQ(budget->staged, budget->max / 2);
  EXPECT_FALSE(Push(kA, 3, 1));
}

TEST_F(FoldTest, AClockThatCanNeverFitNamesTheBudget) {
  JoinBoth();
  budget->max = 3 * Staging::kPartBytes;
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_FALSE(Push(kA, 2, 0));
  const auto refusal = Push(kB, 1, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID) << "waiting would not help";
  EXPECT_THAT(refusal->message(), AllOf(HasSubstr("clock 0"), HasSubstr("raise --staging-budget")));
}

TEST_F(FoldTest, ContentAndMemoryAreJudgedWhenAPartIsStaged) {
  JoinBoth();
  auto refusal = Push(kA, 1, 0, {{5, std::numeric_limits<float>::infinity()}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  budget->admits = false;
  refusal = Push(kA, 1, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_THAT(refusal->message(), HasSubstr("--memory-budget"));
  EXPECT_EQ(budget->staged, 0u);
  EXPECT_EQ(primary->Here(kA).At(Line::kAggregated), 0u);
}

TEST_F(FoldTest, AssignedRowsAreAveraged) {
  TableInfo info = *AggregatedTable(kJob, /*mean=*/true);
  info.schema.rule = table::Assign{};
  table = std::make_shared<const TableInfo>(info);
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0, {{5, 2.0f}}));
  EXPECT_FALSE(Push(kB, 1, 0, {{5, 5.0f}}));
  primary->Tick(kA, 1, {{0, 1}});
  primary->Tick(kB, 1, {{0, 1}});
  EXPECT_EQ(Value(5), 3.5f);
}

TEST_F(FoldTest, AnEvictedWorkersUnfoldedPartsAreDropped) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0, {{5, 1.0f}}));
  EXPECT_FALSE(Push(kB, 1, 0, {{5, 2.0f}}));
  primary->Tick(kA, 1, {{0, 1}});
  primary->Tick(kB, 1, {{0, 1}});
  EXPECT_FALSE(Push(kA, 2, 1, {{5, 4.0f}}));
  EXPECT_FALSE(Push(kB, 2, 1, {{5, 8.0f}}));
  primary->Tick(kA, 2, {{0, 2}});
  EXPECT_TRUE(Change(v1::Change::kEvict, kB));
  EXPECT_EQ(Value(5), 7.0f) << "of the evicted one clock 0 counts and clock 1 does not";
  ASSERT_THAT(budget->evictions, SizeIs(1));
  EXPECT_EQ(budget->evictions[0].counts_below, 1u);
  EXPECT_EQ(budget->staged, 0u);
}

TEST_F(FoldTest, TheLastTickWaitsForItsFold) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0, {{5, 1.0f}}));
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, /*clock=*/0, 0, {{0, 1}}));
  EXPECT_THAT(why,
              AllOf(HasSubstr("0 + 0 parts applied of 0 + 1"), HasSubstr("worker 1 (session 8) at clock 0")));
  EXPECT_THAT(budget->finishes, IsEmpty());
  primary->Tick(kB, 1, {});
  EXPECT_EQ(Value(5), 1.0f);
  ASSERT_THAT(budget->finishes, SizeIs(1)) << "nobody had to ask again";
  EXPECT_EQ(budget->finishes[0].clock, 1u);
  EXPECT_TRUE(Change(v1::Change::kFinish, kA, 0, 0, {{0, 1}}));
  EXPECT_EQ(MinClock(), 1u);
  primary->Tick(kB, 3, {});
  EXPECT_EQ(MinClock(), 3u) << "it holds nobody up";
}

TEST_F(FoldTest, TheLastTickIsOfTheClockAfterTheLastOneWhateverTheOthersHaveReached) {
  JoinBoth();
  primary->Tick(kB, 9, {});
  primary->Tick(kA, 2, {});
  EXPECT_FALSE(Push(kA, 1, 2));
  EXPECT_TRUE(Change(v1::Change::kFinish, kA, /*clock=*/2, 0, {{0, 1}})) << why;
  ASSERT_THAT(budget->finishes, SizeIs(1));
  EXPECT_EQ(budget->finishes[0].clock, 3u);
  EXPECT_EQ(MinClock(), 9u);
}

TEST_F(FoldTest, ALastTickThatWaitsSaysForWhichParts) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_FALSE(Push(kA, 2, 0));
  for (const SessionId session : {kA, kB}) primary->Tick(session, 1, {{0, session == kA ? 2u : 0u}});
  line = Line::kArrival;
  table = SumTable(kJob);
  EXPECT_FALSE(Push(kA, 1, 1));
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, /*clock=*/1, 0, {{3, 4}}));
  EXPECT_EQ(why, "segment 0: session 7 has 1 + 2 parts applied of 3 + 4");
  line = Line::kAggregated;
  table = AggregatedTable(kJob);
  EXPECT_FALSE(Push(kA, 3, 1));
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, /*clock=*/1, 0, {{3, 4}}));
  EXPECT_THAT(why, HasSubstr("parts up to 3 of aggregated tables wait for"));
}

TEST_F(FoldTest, ALastTickMayComeBeforeItsParts) {
  JoinBoth();
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, /*clock=*/2, 0, {{0, 1}}));
  for (const Clock clock : {1, 2, 3}) primary->Tick(kB, clock, {});
  EXPECT_EQ(MinClock(), 0u);
  EXPECT_FALSE(Push(kA, 1, 1));
  EXPECT_EQ(MinClock(), 3u);
  EXPECT_THAT(budget->finishes, SizeIs(1));
  EXPECT_EQ(Value(5), 1.0f);
}

TEST_F(FoldTest, WithoutWorkersReadsAreServedAtTheEndOfTheJob) {
  JoinBoth();
  EXPECT_TRUE(Change(v1::Change::kFinish, kB, /*clock=*/7));
  const auto parked = Pull(kReader, 8, 5);
  EXPECT_EQ(parked->certificate, std::nullopt);
  EXPECT_TRUE(Change(v1::Change::kEvict, kA));
  ASSERT_TRUE(parked->certificate);
  EXPECT_EQ(parked->certificate->min_clock, 8u);
}

TEST_F(FoldTest, WorkersThatJoinAnAbandonedJobReadAtTheirStart) {
  JoinBoth(/*start=*/4);
  EXPECT_EQ(MinClock(), 4u) << "there is no one whose updates could be missing";
  EXPECT_TRUE(Pull(kA, 4, 5)->certificate);
}

TEST_F(FoldTest, ANewPrimaryGetsUnfoldedPartsAgain) {
  JoinBoth();
  EXPECT_FALSE(Push(kA, 1, 0));
  primary->Tick(kA, 1, {{0, 1}});
  EXPECT_FALSE(Push(kA, 2, 1));
  EXPECT_FALSE(Push(kB, 1, 0));
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, 1, 0, {{0, 2}}));
  Segment state = primary->Release({}).segment;
  EXPECT_EQ(budget->staged, 0u);
  primary.emplace(std::move(state), Epoch(2), budget);
  primary->Tick(kB, 1, {{0, 1}});
  const auto refusal = Push(kA, 2, 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->expected(), 1u) << "from the last committed part on";
  EXPECT_FALSE(Push(kB, 1, 0));
  EXPECT_FALSE(Push(kA, 1, 0));
  EXPECT_FALSE(Push(kA, 2, 1));
  EXPECT_EQ(MinClock(), 0u) << "the last tick was soft";
  EXPECT_FALSE(Change(v1::Change::kFinish, kA, 1, 0, {{0, 2}}));
  EXPECT_EQ(MinClock(), 1u);
  EXPECT_EQ(Value(5), 2.0f);
}

}  // namespace
}  // namespace paceline::log
