#include "libs/log/primary.h"

#include <array>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr JobId kJob{1};
constexpr SessionId kA{7};
constexpr SessionId kB{8};

class TestBudget : public RowMemory, public StagingRoom, public RecordSink {
 public:
  bool Admits(uint64_t more) override { return bytes + static_cast<int64_t>(more) <= bytes_max; }
  void Grown(int64_t by) override { bytes += by; }
  void RowsUpdated(uint64_t by) override { rows += by; }
  int64_t bytes = 0;
  int64_t bytes_max = 1 << 30;
  uint64_t rows = 0;
};

class Acks : public AckSink {
 public:
  void Committed(wire::Mark mark) override { numbers.push_back(mark.number); }
  std::vector<PartNumber> numbers;
};

class Answers : public ReadSink {
 public:
  void Served(size_t, const wire::Certificate& certificate, const Wait& wait) override {
    certificates.push_back(certificate);
    waits.push_back(wait);
  }
  void Refused(size_t, v1::Refusal refusal) override { refusals.push_back(std::move(refusal)); }
  std::vector<wire::Certificate> certificates;
  std::vector<Wait> waits;
  std::vector<v1::Refusal> refusals;
};

class PrimaryTest : public ::testing::Test {
 protected:
  PrimaryTest() {
    Open(kA);
    Open(kB);
  }

  static v1::Change Change(v1::Change::ActionCase action, SessionId session) {
    return ChangeOf(action, session, kJob);
  }
  bool Do(const v1::Change& change, clock::LineCounts seals = {}) {
    why.clear();
    behind.reset();
    return primary.Change(change, seals, &why, &behind);
  }
  void Open(SessionId session) { ASSERT_TRUE(Do(Change(v1::Change::kOpen, session))); }
  bool Join(SessionId session, Clock start, uint32_t rank = 0) {
    return Do(ChangeOf(v1::Change::kJoin, session, kJob, start, rank));
  }

  std::optional<v1::Refusal> Push(SessionId session, PartNumber number,
                                  std::vector<std::pair<uint64_t, float>> rows, Clock clock = 0) {
    return primary.Take({.update = MakeUpdate(session, number, std::move(rows), clock),
                         .job = kJob,
                         .table = SumTable(kJob),
                         .acks = acks});
  }
  std::shared_ptr<Answers> Pull(SessionId session, Clock min_clock, PartNumber own = 0,
                                absl::Time deadline = absl::InfiniteFuture()) {
    auto answers = std::make_shared<Answers>();
    primary.Serve({.session = session,
                   .job = kJob,
                   .table = SumTable(kJob),
                   .keys = absl::string_view(reinterpret_cast<const char*>(&key), sizeof(key)),
                   .out = reinterpret_cast<std::byte*>(&value),
                   .own = own,
                   .min_clock = min_clock,
                   .deadline = deadline,
                   .sink = answers},
                  now);
    return answers;
  }

  const uint64_t key = 5;
  float value = -1;
  absl::Time now = absl::UnixEpoch();
  std::shared_ptr<TestBudget> budget = std::make_shared<TestBudget>();
  std::shared_ptr<Acks> acks = std::make_shared<Acks>();
  Primary primary{SegmentId(0), 0, Epoch(1), budget};
  std::string why;
  std::optional<Clock> behind;
};

TEST_F(PrimaryTest, TakesPartsInOrderAndEachOnce) {
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}})) << "a repeated part is acknowledged";
  EXPECT_FALSE(Push(kA, 2, {{5, 1.0f}}));
  EXPECT_THAT(acks->numbers, ElementsAre(1, 1, 2));
  EXPECT_THAT(Pull(kA, 0)->certificates, ::testing::SizeIs(1));
  EXPECT_EQ(value, 2.0f) << "and applied once";
  EXPECT_EQ(budget->rows, 2u);
}

TEST_F(PrimaryTest, AGapIsRefusedNamingTheExpectedNumber) {
  const auto refusal = Push(kA, 3, {{5, 1.0f}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OUT_OF_ORDER);
  EXPECT_EQ(refusal->expected(), 1u);
  EXPECT_THAT(acks->numbers, IsEmpty());
}

TEST_F(PrimaryTest, ARefusedPartKeepsItsNumberForAnEmptyOne) {
  const auto refusal = Push(kA, 1, {{5, std::numeric_limits<float>::quiet_NaN()}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refusal->expected(), 1u);
  EXPECT_EQ(Push(kA, 2, {{5, 1.0f}})->reason(), v1::Refusal::OUT_OF_ORDER);
  EXPECT_FALSE(Push(kA, 1, {}));
  EXPECT_FALSE(Push(kA, 2, {{5, 1.0f}}));
}

TEST_F(PrimaryTest, SessionsThatAreNotOpenAreFenced) {
  EXPECT_EQ(Push(SessionId(99), 1, {{5, 1.0f}})->reason(), v1::Refusal::FENCED);
  v1::Change evict = Change(v1::Change::kEvict, kA);
  evict.mutable_evict()->set_reason("silent for 11 s");
  EXPECT_TRUE(Do(evict));
  const auto refusal = Push(kA, 1, {{5, 1.0f}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::FENCED);
  EXPECT_THAT(refusal->message(), HasSubstr("silent for 11 s"));
  EXPECT_FALSE(Do(Change(v1::Change::kOpen, kA))) << "a late Open of a closed id";
  EXPECT_EQ(Pull(kA, 0)->refusals.at(0).reason(), v1::Refusal::FENCED);
}

TEST_F(PrimaryTest, AReadThatWaitsIsToldWhyItsSessionWasClosed) {
  const auto parked = Pull(kA, 5);
  ASSERT_EQ(primary.parked(), 1u);
  v1::Change evict = Change(v1::Change::kEvict, kA);
  evict.mutable_evict()->set_reason("segment 7 is lost");
  evict.mutable_evict()->set_data_lost(true);
  EXPECT_TRUE(Do(evict));
  ASSERT_THAT(parked->refusals, ::testing::SizeIs(1));
  EXPECT_EQ(parked->refusals[0].reason(), v1::Refusal::DATA_LOSS);
  EXPECT_THAT(parked->refusals[0].message(), HasSubstr("segment 7 is lost"));
}

TEST_F(PrimaryTest, AfterAnEmptyBeginningOnlyUnknownSessionsHaveLostData) {
  primary.BeganEmpty(/*change_floor=*/0);
  EXPECT_EQ(Push(SessionId(99), 1, {{5, 1.0f}})->reason(), v1::Refusal::DATA_LOSS);
  EXPECT_TRUE(Do(Change(v1::Change::kEvict, kA)));
  for (uint64_t other = 1000; other < 3000; ++other) {  // until the reason is forgotten
    EXPECT_TRUE(Do(Change(v1::Change::kEvict, SessionId(other))));
  }
  EXPECT_EQ(Push(kA, 1, {{5, 1.0f}})->reason(), v1::Refusal::FENCED);
}

TEST_F(PrimaryTest, AForeignJobIsFenced) {
  auto part = Part{
      .update = MakeUpdate(kA, 1, {{5, 1.0f}}), .job = JobId(2), .table = SumTable(JobId(2)), .acks = acks};
  EXPECT_EQ(primary.Take(part)->reason(), v1::Refusal::FENCED);
}

TEST_F(PrimaryTest, OverTheBudgetNothingIsTakenButKnownRowsStillAre) {
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  budget->bytes_max = budget->bytes;
  const auto refusal = Push(kA, 2, {{6, 1}, {7, 1}, {8, 1}, {9, 1}, {10, 1}});  // a bucket more
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_GT(refusal->retry_after_ms(), 0u);
  EXPECT_FALSE(Push(kA, 2, {{5, 1.0f}})) << "an update of a row that is there needs no memory";
}

TEST_F(PrimaryTest, ReadsParkUntilTheMinClockIsReached) {
  ASSERT_TRUE(Join(kA, 0, 0));
  ASSERT_TRUE(Join(kB, 0, 1));
  primary.Tick(kA, 3, {});
  now += absl::Seconds(1);
  const auto pulled = Pull(kA, 2);
  EXPECT_THAT(pulled->certificates, IsEmpty());
  EXPECT_EQ(primary.parked(), 1u);
  now += absl::Seconds(2);
  primary.SetNow(now);
  primary.Tick(kB, 1, {});
  EXPECT_THAT(pulled->certificates, IsEmpty());
  primary.Tick(kB, 2, {});
  ASSERT_THAT(pulled->certificates, ::testing::SizeIs(1));
  EXPECT_EQ(pulled->certificates[0].min_clock, 2u);
  EXPECT_EQ(pulled->waits[0].cause, Wait::Cause::kStaleness);
  EXPECT_EQ(pulled->waits[0].duration, absl::Seconds(2));
  EXPECT_THAT(pulled->waits[0].for_whom, HasSubstr("worker 1 (session 8)"));
}

TEST_F(PrimaryTest, ATickOfASessionThatIsNotOpenChangesNothing) {
  const uint64_t hash = primary.segment().Hash();
  primary.Tick(SessionId(99), 3, {});
  EXPECT_EQ(primary.segment().Hash(), hash);
}

TEST_F(PrimaryTest, ReadsParkUntilTheReadersOwnPartIsApplied) {
  const auto pulled = Pull(kA, 0, /*own=*/1);
  EXPECT_THAT(pulled->certificates, IsEmpty());
  EXPECT_FALSE(Push(kA, 1, {{5, 4.0f}}));
  ASSERT_THAT(pulled->certificates, ::testing::SizeIs(1));
  EXPECT_EQ(pulled->certificates[0].own, 1u);
  EXPECT_EQ(pulled->waits[0].cause, Wait::Cause::kQueue);
  EXPECT_EQ(value, 4.0f);
}

TEST_F(PrimaryTest, ADeadlineNamesTheSlowWorker) {
  ASSERT_TRUE(Join(kA, 0, 3));
  const auto pulled = Pull(kA, 1, 0, now + absl::Seconds(5));
  primary.OnTime(now + absl::Seconds(4));
  EXPECT_THAT(pulled->refusals, IsEmpty());
  primary.OnTime(now + absl::Seconds(5));
  ASSERT_THAT(pulled->refusals, ::testing::SizeIs(1));
  EXPECT_EQ(pulled->refusals[0].reason(), v1::Refusal::DEADLINE);
  EXPECT_THAT(pulled->refusals[0].message(), HasSubstr("worker 3 (session 7) at clock 0"));
}

TEST_F(PrimaryTest, AnEvictedWorkerHoldsNobodyUp) {
  ASSERT_TRUE(Join(kA, 0, 0));
  ASSERT_TRUE(Join(kB, 0, 1));
  primary.Tick(kA, 4, {});
  const auto pulled = Pull(kA, 4);
  EXPECT_THAT(pulled->certificates, IsEmpty());
  EXPECT_TRUE(Do(Change(v1::Change::kEvict, kB)));
  EXPECT_THAT(pulled->certificates, ::testing::SizeIs(1));
}

TEST_F(PrimaryTest, FinishWaitsForItsPartsAndThenCountsAsPastEveryClock) {
  ASSERT_TRUE(Join(kA, 0, 0));
  ASSERT_TRUE(Join(kB, 0, 1));
  primary.Tick(kB, 9, {});
  const clock::LineCounts one{{1, 0}};
  EXPECT_FALSE(Do(Change(v1::Change::kFinish, kA), one));
  EXPECT_THAT(why, HasSubstr("0 + 0 parts applied of 1 + 0"));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  EXPECT_TRUE(Do(Change(v1::Change::kFinish, kA), one));
  EXPECT_TRUE(Do(Change(v1::Change::kFinish, kA), one)) << "repeating it is harmless";
  EXPECT_EQ(primary.segment().jobs().at(kJob).min_clock(), 9u);
}

TEST_F(PrimaryTest, ARepeatedJoinThatComesAfterTheLastTickChangesNothing) {
  ASSERT_TRUE(Join(kA, 4, 0));
  ASSERT_TRUE(Join(kB, 4, 1));
  ASSERT_TRUE(Do(Change(v1::Change::kFinish, kA)));
  EXPECT_TRUE(Join(kA, 4, 0));
  primary.Tick(kB, 7, {});
  EXPECT_EQ(primary.segment().jobs().at(kJob).min_clock(), 7u) << "nobody waits for the one who has finished";
}

TEST_F(PrimaryTest, ALateJoinIsRefusedWithTheMinClock) {
  ASSERT_TRUE(Join(kA, 0, 0));
  primary.Tick(kA, 6, {});
  EXPECT_FALSE(Join(kB, 5, 1));
  EXPECT_THAT(behind, ::testing::Optional(6u));
  EXPECT_TRUE(Join(kB, 8, 1));
  EXPECT_TRUE(Join(kB, 8, 1)) << "repeating it is harmless";
}

TEST_F(PrimaryTest, AWorkerThatJoinsAloneDoesNotWaitForItself) {
  ASSERT_TRUE(Join(kA, 0, 0));
  primary.Tick(kA, 4, {});
  EXPECT_TRUE(Do(Change(v1::Change::kEvict, kA)));
  const auto parked = Pull(kB, 5);
  ASSERT_TRUE(Join(kB, 6, 0)) << "elsewhere the min clock was further on";
  EXPECT_THAT(parked->certificates, ::testing::SizeIs(1));
  EXPECT_THAT(Pull(kB, 6)->certificates, ::testing::SizeIs(1)) << "its first read";
}

TEST_F(PrimaryTest, PartsAreNumberedFromOne) {
  const auto refusal = Push(kA, 0, {{5, 1.0f}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("numbered from 1"));
  EXPECT_THAT(acks->numbers, IsEmpty());
}

TEST_F(PrimaryTest, AFinishedWorkerCannotPush) {
  ASSERT_TRUE(Join(kA, 0, 0));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  ASSERT_TRUE(Do(Change(v1::Change::kFinish, kA), {{1, 0}}));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}})) << "a repeated part was taken before";
  const auto refusal = Push(kA, 2, {{5, 1.0f}}, /*clock=*/9);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("has finished"));
}

TEST_F(PrimaryTest, ALateChangeIsLateForTheNextPrimaryToo) {
  const Subject table{Subject::Kind::kTable, 4};
  bool late = false;
  EXPECT_TRUE(primary.TakeUp({.subject = table, .number = 7, .floor = 3}, &why, &late));
  EXPECT_TRUE(primary.TakeUp({.subject = table, .number = 7, .floor = 5}, &why, &late)) << "the same again";
  EXPECT_TRUE(primary.TakeUp({.subject = table, .number = 0}, &why, &late)) << "it has no number";
  Primary next(primary.Release({}).segment, Epoch(2), budget);
  EXPECT_FALSE(next.TakeUp({.subject = table, .number = 6}, &why, &late));
  EXPECT_TRUE(late);
  EXPECT_NE(why.find("change 6 comes too late"), std::string::npos) << why;
  late = false;
  EXPECT_FALSE(next.TakeUp({.subject = {Subject::Kind::kJob, 1}, .number = 3}, &why, &late));
  EXPECT_TRUE(late) << "it was over when the other one was asked for";
}

TEST_F(PrimaryTest, WhatASegmentThatBeganEmptyIsNotForIsKnownToTheNextPrimaryToo) {
  primary.BeganEmpty(/*change_floor=*/9);
  Primary next(primary.Release({}).segment, Epoch(2), budget);
  bool late = false;
  EXPECT_FALSE(next.TakeUp({.subject = {Subject::Kind::kSession, 1}, .number = 9}, &why, &late));
  EXPECT_TRUE(late);
  EXPECT_TRUE(next.TakeUp({.subject = {Subject::Kind::kSession, 1}, .number = 10}, &why, &late));
}

TEST_F(PrimaryTest, AReleasedSegmentContinuesWithoutItsTicks) {
  ASSERT_TRUE(Join(kA, 0, 0));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  primary.Tick(kA, 3, {{1, 0}});
  primary.Tick(kA, 4, {{2, 0}});  // waits for a part
  const auto parked = Pull(kB, 9);
  v1::Refusal moved;
  moved.set_reason(v1::Refusal::MOVED);
  const uint64_t hash = primary.segment().Hash();
  const int64_t bytes = budget->bytes;

  Primary next(primary.Release(moved).segment, Epoch(2), budget);
  ASSERT_THAT(parked->refusals, ::testing::SizeIs(1));
  EXPECT_EQ(parked->refusals[0].reason(), v1::Refusal::MOVED);
  EXPECT_NE(next.segment().Hash(), hash) << "its first record is that of the epoch";
  const uint64_t begun = next.segment().Hash();
  EXPECT_EQ(next.segment().epoch(), Epoch(2));
  EXPECT_EQ(budget->bytes, bytes) << "its memory is counted once";
  EXPECT_EQ(next.segment().jobs().at(kJob).min_clock(), 3u);
  EXPECT_THAT(next.segment().jobs().at(kJob).workers().at(kA).pending, IsEmpty());
  EXPECT_FALSE(next.Take(
      {.update = MakeUpdate(kA, 1, {{5, 1.0f}}, 0), .job = kJob, .table = SumTable(kJob), .acks = acks}));
  EXPECT_THAT(acks->numbers, ElementsAre(1, 1)) << "what was taken before is not taken again";
  EXPECT_EQ(next.segment().Hash(), begun);
}

TEST_F(PrimaryTest, MemoryIsCountedAsASegmentHoldsIt) {
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}));
  EXPECT_EQ(budget->bytes, static_cast<int64_t>(primary.segment().bytes()));
  primary.Release({});
  EXPECT_EQ(budget->bytes, 0);
}

TEST_F(PrimaryTest, UpdatesOfASealedClockAreRefused) {
  ASSERT_TRUE(Join(kA, 0, 0));
  primary.Tick(kA, 2, {});
  const auto refusal = Push(kA, 1, {{5, 1.0f}}, /*clock=*/1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_THAT(refusal->message(), HasSubstr("clock: 1"));
  EXPECT_FALSE(Push(kA, 1, {{5, 1.0f}}, /*clock=*/2));
}

TEST_F(PrimaryTest, ParkedReadsAreBounded) {
  ASSERT_TRUE(Join(kA, 0, 0));
  std::vector<std::shared_ptr<Answers>> pulls;
  for (size_t i = 0; i <= Primary::kParkedMax; ++i) pulls.push_back(Pull(kA, 1));
  EXPECT_EQ(primary.parked(), Primary::kParkedMax);
  ASSERT_THAT(pulls.back()->refusals, ::testing::SizeIs(1));
  EXPECT_EQ(pulls.back()->refusals[0].reason(), v1::Refusal::OVER_BUDGET);
}

TEST_F(PrimaryTest, AbandonAnswersEveryParkedRead) {
  ASSERT_TRUE(Join(kA, 0, 0));
  const auto pulled = Pull(kA, 1);
  v1::Refusal stopping;
  stopping.set_reason(v1::Refusal::UNAVAILABLE);
  primary.Abandon(stopping);
  ASSERT_THAT(pulled->refusals, ::testing::SizeIs(1));
  EXPECT_EQ(pulled->refusals[0].reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_EQ(primary.parked(), 0u);
}

// -- what has changed --
class ChangesTest : public PrimaryTest {
 protected:
  // The keys and values of what has changed since; nullopt: not known, or more than there is room for.
  std::optional<std::map<uint64_t, float>> ChangedSince(
      Lsn since, size_t rows_max = 8, std::shared_ptr<const TableInfo> table = SumTable(kJob)) {
    answers = std::make_shared<Answers>();
    std::vector<uint64_t> keys(rows_max);
    std::vector<float> values(rows_max);
    uint32_t count = 0;
    primary.Serve({.session = kA,
                   .job = kJob,
                   .table = table,
                   .keys = {},
                   .changes = ChangesAsked{.since = since,
                                           .rows_max = rows_max,
                                           .count = &count,
                                           .keys = reinterpret_cast<std::byte*>(keys.data())},
                   .out = reinterpret_cast<std::byte*>(values.data()),
                   .sink = answers},
                  now);
    if (answers->certificates.empty() || count == wire::kChangesUnknown) return std::nullopt;
    std::map<uint64_t, float> changed;
    for (size_t i = 0; i < count; ++i) changed[keys[i]] = values[i];
    return changed;
  }
  Lsn Version() const { return primary.segment().version(); }
  std::shared_ptr<Answers> answers;
};

TEST_F(ChangesTest, AreKnownFromTheFirstQuestionOn) {
  Push(kA, 1, {{5, 1.0f}});
  EXPECT_EQ(ChangedSince(Lsn(0)), std::nullopt);
  const Lsn asked = Version();
  EXPECT_EQ(answers->certificates.at(0).version, asked);
  Push(kA, 2, {{5, 1.0f}, {6, 2.0f}});
  Push(kB, 1, {{6, 2.0f}, {9, 3.0f}});
  EXPECT_EQ(ChangedSince(asked), (std::map<uint64_t, float>{{5, 2}, {6, 4}, {9, 3}}));
  EXPECT_EQ(ChangedSince(Version()), (std::map<uint64_t, float>{}));
  EXPECT_EQ(ChangedSince(Lsn(asked.v - 1)), std::nullopt);
  EXPECT_EQ(ChangedSince(Lsn(Version().v + 1)), std::nullopt) << "a version that is not there";
}

TEST_F(ChangesTest, ARowThatIsPushedAndStaysAsItWasHasNotChanged) {
  Push(kA, 1, {{5, 1.0f}});
  ChangedSince(Lsn(0));
  const Lsn asked = Version();
  Push(kA, 2, {{5, 0.0f}, {6, 1.0f}});
  EXPECT_EQ(ChangedSince(asked), (std::map<uint64_t, float>{{6, 1}}));
}

TEST_F(ChangesTest, MoreThanThereIsRoomForAreNotTold) {
  ChangedSince(Lsn(0));
  const Lsn asked = Version();
  Push(kA, 1, {{1, 1.0f}, {2, 1.0f}, {3, 1.0f}});
  EXPECT_EQ(ChangedSince(asked, 2), std::nullopt);
  EXPECT_EQ(ChangedSince(asked, 3)->size(), 3u);
}

TEST_F(ChangesTest, AreForgottenWhenNoClientAsks) {
  ChangedSince(Lsn(0));
  const Lsn asked = Version();
  PartNumber number = 0;
  for (uint64_t i = 0; i < ChangeTracker::kUpdatesUnasked; ++i) Push(kA, ++number, {{5, 1.0f}});
  EXPECT_TRUE(ChangedSince(asked).has_value());
  for (uint64_t i = 0; i <= ChangeTracker::kUpdatesUnasked; ++i) Push(kA, ++number, {{5, 1.0f}});
  EXPECT_EQ(ChangedSince(asked), std::nullopt);
}

TEST_F(ChangesTest, TheTableAskedAboutLeastIsForgottenFirst) {
  ChangedSince(Lsn(0));
  const Lsn asked = Version();
  Push(kA, 1, {{5, 1.0f}});
  for (uint32_t id = 100; id < 100 + ChangeTracker::kTablesMax; ++id) {
    auto other = std::make_shared<TableInfo>(*SumTable(kJob));
    other->id = TableId(id);
    EXPECT_EQ(ChangedSince(Lsn(0), 8, other), std::nullopt);
    EXPECT_TRUE(ChangedSince(Version(), 8, other).has_value());
  }
  EXPECT_EQ(ChangedSince(asked), std::nullopt);
}

TEST_F(ChangesTest, ARangedOrAggregatedTableIsRefused) {
  auto folded = std::make_shared<TableInfo>(*SumTable(kJob));
  folded->id = TableId(77);
  folded->schema.aggregated = true;
  EXPECT_EQ(ChangedSince(Lsn(0), 8, folded), std::nullopt);
  ASSERT_EQ(answers->refusals.size(), 1u);
  EXPECT_EQ(answers->refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_THAT(answers->refusals[0].message(), HasSubstr("pull by keys"));
}

TEST_F(ChangesTest, WaitForTheMinClockAsAnyRead) {
  ASSERT_TRUE(Join(kA, 0));
  ChangedSince(Lsn(0));
  auto waiting = std::make_shared<Answers>();
  uint32_t count = 0;
  primary.Serve({.session = kA,
                 .job = kJob,
                 .table = SumTable(kJob),
                 .keys = {},
                 .changes = ChangesAsked{.since = Version(),
                                         .rows_max = 1,
                                         .count = &count,
                                         .keys = reinterpret_cast<std::byte*>(&count)},
                 .min_clock = 1,
                 .sink = waiting},
                now);
  EXPECT_TRUE(waiting->certificates.empty());
  primary.Tick(kA, 1, {});
  ASSERT_EQ(waiting->certificates.size(), 1u);
  EXPECT_EQ(waiting->certificates[0].min_clock, 1u);
}

}  // namespace
}  // namespace paceline::log
