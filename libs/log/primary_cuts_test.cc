// Cuts of a job, and rows of snapshots that are loaded, at one primary.
#include <cstring>
#include <map>
#include <optional>

#include "gmock/gmock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/test_util/fold_fixture.h"

namespace paceline::log {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class CutTest : public FoldTest {
 protected:
  bool Cut(uint64_t id, Clock clock, bool exact = false, bool at_once = false) {
    why.clear();
    passed.reset();
    primary->SetNow(now);
    return primary->Change(CutWish{.id = id, .job = kJob, .clock = clock, .at_once = at_once, .exact = exact},
                           &why, &passed);
  }
  void Tick(SessionId session, Clock clock, PartNumber aggregated, PartNumber arrival = 0) {
    clock::LineCounts seals;
    seals.At(Line::kAggregated) = aggregated;
    seals.At(Line::kArrival) = arrival;
    primary->Tick(session, clock, seals);
  }
  // The first value of each row; all that is left of the cut is taken.
  std::map<uint64_t, float> RowsOf(const CutCopy& copy) {
    std::map<uint64_t, float> rows;
    table::CopiedRows page;
    while (true) {
      const auto next = primary->NextOfCut(copy.cut.job, copy.cut.id, &page);
      EXPECT_THAT(next, IsOk());
      if (!next.ok() || !*next) return rows;
      for (size_t i = 0; i < page.keys.size(); ++i) rows[page.keys[i]] = page.rows[i * page.floats];
    }
  }
  std::optional<Clock> passed;
};

TEST_F(CutTest, HoldsTheFoldedClocksBeforeItAndNothingElse) {
  JoinBoth();
  EXPECT_FALSE(Cut(1, 2));
  EXPECT_THAT(why, HasSubstr("waits for worker 0"));
  for (Clock clock = 0; clock < 4; ++clock) {
    for (const SessionId session : {kA, kB}) {
      // A is a clock ahead, so that parts of the clock after the cut are here when it is logged.
      if (session == kB && clock == 3) break;
      ASSERT_EQ(Push(session, clock + 1, clock), std::nullopt);
      Tick(session, clock + 1, clock + 1);
    }
  }
  EXPECT_EQ(MinClock(), 3u);
  EXPECT_EQ(Value(5), 6);
  ASSERT_TRUE(Cut(1, 2)) << why;
  const std::optional<CutCopy> copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  EXPECT_THAT(RowsOf(*copy), UnorderedElementsAre(Pair(5, 4.0f)));
  EXPECT_EQ(copy->cut.clock, 2u);
  EXPECT_EQ(copy->epoch, Epoch(1));
  EXPECT_FALSE(primary->TakeCut(kJob, 1).has_value()) << "taken before";
}

TEST_F(CutTest, TicksThatSkipClocksDoNotSkipTheCut) {
  JoinBoth();
  EXPECT_FALSE(Cut(1, 3));
  Tick(kA, 9, 0);
  Tick(kB, 8, 0);
  EXPECT_EQ(MinClock(), 8u);
  ASSERT_TRUE(Cut(1, 3)) << why;
  const auto copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->cut.clock, 3u);
  EXPECT_TRUE(copy->exact);
}

TEST_F(CutTest, AClockThatIsPassedIsRefusedAndNothingLogged) {
  JoinBoth();
  Tick(kA, 4, 0);
  Tick(kB, 4, 0);
  const Lsn before = primary->segment().version();
  EXPECT_FALSE(Cut(1, 3));
  EXPECT_EQ(passed, 4u);
  EXPECT_EQ(primary->segment().version(), before);
}

TEST_F(CutTest, UpdatesOfLaterClocksMakeItInexact) {
  line = Line::kArrival;
  table = SumTable(kJob);
  JoinBoth();
  EXPECT_FALSE(Cut(1, 1));
  ASSERT_EQ(Push(kA, 1, 0), std::nullopt);
  ASSERT_EQ(Push(kA, 2, 1), std::nullopt);
  Tick(kA, 1, 0, 1);
  Tick(kB, 1, 0, 0);
  ASSERT_TRUE(Cut(1, 1)) << why;
  const auto copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  EXPECT_FALSE(copy->exact);
  EXPECT_THAT(RowsOf(*copy), UnorderedElementsAre(Pair(5, 2.0f)));
  ASSERT_EQ(copy->workers.size(), 2u);
  EXPECT_EQ(copy->workers[0].clock, 1u);
}

TEST_F(CutTest, AnExactOneMakesWorkersWait) {
  line = Line::kArrival;
  table = SumTable(kJob);
  JoinBoth();
  EXPECT_FALSE(Cut(1, 1, /*exact=*/true));
  ASSERT_EQ(Push(kA, 1, 0), std::nullopt);
  Tick(kA, 1, 0, 1);
  const auto refused = Push(kA, 2, 1);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_THAT(refused->message(), HasSubstr("before its cut"));
  ASSERT_EQ(Push(kB, 1, 0), std::nullopt);
  Tick(kB, 1, 0, 1);
  EXPECT_EQ(Push(kA, 2, 1), std::nullopt) << "it is logged by now";
  ASSERT_TRUE(Cut(1, 1, true)) << why;
  const auto copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  EXPECT_TRUE(copy->exact);
  EXPECT_THAT(RowsOf(*copy), UnorderedElementsAre(Pair(5, 2.0f)));
}

TEST_F(CutTest, AnExactCutIsRefusedWhereAWorkerIsBeyondIt) {
  line = Line::kArrival;
  table = SumTable(kJob);
  JoinBoth();
  ASSERT_EQ(Push(kA, 1, 3), std::nullopt);
  EXPECT_FALSE(Cut(1, 2, /*exact=*/true));
  EXPECT_EQ(passed, 3u);
  EXPECT_FALSE(Cut(2, 4, true));
  EXPECT_FALSE(passed.has_value());
}

TEST_F(CutTest, WorkersDoNotWaitForACoordinatorThatStoppedAsking) {
  line = Line::kArrival;
  table = SumTable(kJob);
  JoinBoth();
  EXPECT_FALSE(Cut(1, 1, /*exact=*/true));
  ASSERT_TRUE(Push(kA, 1, 1).has_value());
  now += Cuts::kAskedMax + absl::Milliseconds(1);
  primary->OnTime(now);
  EXPECT_EQ(Push(kA, 1, 1), std::nullopt);
}

TEST_F(CutTest, WithoutWorkersItIsLoggedAtOnce) {
  line = Line::kArrival;
  table = SumTable(kJob);
  ASSERT_EQ(Push(kReader, 1, 0), std::nullopt);
  ASSERT_TRUE(Cut(1, 0, false, /*at_once=*/true)) << why;
  const auto copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  EXPECT_TRUE(copy->exact);
  EXPECT_THAT(RowsOf(*copy), UnorderedElementsAre(Pair(5, 1.0f)));
}

TEST_F(CutTest, TheNextPrimaryKnowsTheCutAndDoesNotHaveItsRows) {
  JoinBoth();
  ASSERT_TRUE(Cut(1, 0));
  Primary next(primary->Release({}).segment, Epoch(2), budget);
  EXPECT_TRUE(next.Change(CutWish{.id = 1, .job = kJob, .clock = 0}, &why, &passed)) << why;
  EXPECT_FALSE(next.TakeCut(kJob, 1).has_value());
  EXPECT_EQ(next.segment().SnapshotsOf(kJob).cut, 1u);
}

TEST_F(CutTest, UpdatesDuringTheCopyAreNotInIt) {
  line = Line::kArrival;
  table = SumTable(kJob);
  ASSERT_EQ(Push(kReader, 1, 0), std::nullopt);
  ASSERT_TRUE(Cut(1, 0, false, /*at_once=*/true)) << why;
  const auto copy = primary->TakeCut(kJob, 1);
  ASSERT_TRUE(copy.has_value());
  ASSERT_EQ(Push(kReader, 2, 0), std::nullopt);
  EXPECT_EQ(Value(5), 2);
  EXPECT_THAT(RowsOf(*copy), UnorderedElementsAre(Pair(5, 1.0f)));
  table::CopiedRows page;
  EXPECT_THAT(primary->NextOfCut(kJob, 1, &page), StatusIs(absl::StatusCode::kNotFound)) << "given out";
  EXPECT_EQ(budget->grown, static_cast<int64_t>(primary->segment().bytes())) << "it takes no memory any more";
}

TEST_F(CutTest, ACopyEndsWithItsPrimaryAndWithTheNextCut) {
  line = Line::kArrival;
  table = SumTable(kJob);
  ASSERT_EQ(Push(kReader, 1, 0), std::nullopt);
  ASSERT_TRUE(Cut(1, 0, false, /*at_once=*/true)) << why;
  ASSERT_TRUE(Cut(2, 0, false, /*at_once=*/true)) << why;
  table::CopiedRows page;
  EXPECT_THAT(primary->NextOfCut(kJob, 1, &page), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_EQ(Push(kReader, 2, 0), std::nullopt);
  now += Cuts::kKeptMax + absl::Milliseconds(1);
  primary->OnTime(now);
  EXPECT_THAT(primary->NextOfCut(kJob, 2, &page), StatusIs(absl::StatusCode::kNotFound)) << "forgotten";
  EXPECT_EQ(budget->grown, static_cast<int64_t>(primary->segment().bytes()));
  ASSERT_TRUE(Cut(3, 0, false, /*at_once=*/true)) << why;
  ASSERT_EQ(Push(kReader, 3, 0), std::nullopt);
  Primary next(primary->Release({}).segment, Epoch(2), budget);
  EXPECT_EQ(budget->grown, static_cast<int64_t>(next.segment().bytes()));
}

TEST_F(CutTest, WithoutMemoryForChangedRowsItFails) {
  line = Line::kArrival;
  table = SumTable(kJob);
  ASSERT_EQ(Push(kReader, 1, 0), std::nullopt);
  ASSERT_TRUE(Cut(1, 0, false, /*at_once=*/true)) << why;
  ASSERT_TRUE(primary->TakeCut(kJob, 1).has_value());
  budget->most = 0;
  ASSERT_EQ(Push(kReader, 2, 0), std::nullopt) << "the job goes on";
  table::CopiedRows page;
  EXPECT_THAT(primary->NextOfCut(kJob, 1, &page),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
}

TEST_F(CutTest, TheLastMemoryIsLeftToPushes) {
  line = Line::kArrival;
  table = SumTable(kJob);
  ASSERT_EQ(Push(kReader, 1, 0), std::nullopt);
  ASSERT_TRUE(Cut(1, 0, false, /*at_once=*/true)) << why;
  ASSERT_TRUE(primary->TakeCut(kJob, 1).has_value());
  budget->most = uint64_t{1} << 20;  // room for many parts, but not for ever
  ASSERT_EQ(Push(kReader, 2, 0), std::nullopt);
  table::CopiedRows page;
  EXPECT_THAT(primary->NextOfCut(kJob, 1, &page), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(CutTest, ALateEndOfALoadDoesNotBringAClosedJobBack) {
  table = SumTable(kJob);
  ASSERT_THAT(primary->Take(table, Load{.table = kSumTable, .keys = {5}, .rows = {1}}, 3), IsOk());
  primary->Change(CloseJob{.job = kJob, .tables = {kSumTable}}, &why);
  EXPECT_THAT(primary->Take(table, Load{.table = kSumTable, .keys = {5}, .rows = {1}}, 3),
              ::testing::Not(IsOk()));
  EXPECT_THAT(primary->Take(EndLoad{.id = 3, .job = kJob, .clock = 12}, {kSumTable}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was deleted")));
  EXPECT_EQ(primary->segment().SnapshotsOf(kJob).loaded, 0u);
  EXPECT_FALSE(primary->segment().jobs().contains(kJob));
}

TEST_F(CutTest, RowsAreLoadedWithTheirSlotsAndClocksBeginThere) {
  TableInfo info = *SumTable(kJob);
  info.schema.rule = table::Adagrad{.lr = 0.5f};
  table = std::make_shared<const TableInfo>(std::move(info));
  const Load load{.table = kSumTable, .keys = {5, 6}, .rows = {1, 10, 2, 20}};
  ASSERT_THAT(primary->Take(table, load, 3), IsOk());
  EXPECT_FALSE(primary->Loaded(kJob, 3, &why));
  ASSERT_THAT(primary->Take(EndLoad{.id = 3, .job = kJob, .clock = 12}, {kSumTable}), IsOk());
  ASSERT_THAT(primary->Take(EndLoad{.id = 3, .job = kJob, .clock = 12}, {kSumTable}), IsOk());
  EXPECT_TRUE(primary->Loaded(kJob, 3, &why)) << why;
  EXPECT_EQ(MinClock(), 12u);
  EXPECT_EQ(Value(6), 2);
  // From somebody who has not heard that it is done.
  ASSERT_THAT(primary->Take(table, Load{.table = kSumTable, .keys = {6}, .rows = {7, 7}}, 3), IsOk());
  EXPECT_EQ(Value(6), 2);
  ASSERT_TRUE(Cut(4, 0, false, /*at_once=*/true));
  const auto copy = primary->TakeCut(kJob, 4);
  table::CopiedRows page;
  ASSERT_TRUE(primary->NextOfCut(kJob, 4, &page).value());
  EXPECT_EQ(page.keys, load.keys);
  EXPECT_EQ(page.rows, load.rows);
  budget->admits = false;
  EXPECT_THAT(primary->Take(table, Load{.table = kSumTable, .keys = {7}, .rows = {1, 1}}, 5),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
}

}  // namespace
}  // namespace paceline::log
