#include "libs/log/segment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/segment_image.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

constexpr JobId kJob{1};
constexpr SessionId kSession{7};

Segment WithSession() {
  Segment segment(SegmentId(0), 0);
  segment.Apply(OpenTable{SumTable(kJob)});
  segment.Apply(OpenSession{.session = kSession, .job = kJob, .closed_floor = SessionId(3)});
  return segment;
}

TEST(SegmentTest, EveryRecordTakesTheNextLsn) {
  Segment segment = WithSession();
  EXPECT_EQ(segment.version(), Lsn(2));
  segment.Apply(Advance{.job = kJob, .min_clock = 1});
  EXPECT_EQ(segment.version(), Lsn(3));
}

TEST(SegmentTest, UpdatesCountOnTheirLine) {
  Segment segment = WithSession();
  const Effects effects = segment.Apply(MakeUpdate(kSession, 1, {{5, 1.0f}, {6, 2.0f}}));
  EXPECT_EQ(effects.rows_updated, 2u);
  EXPECT_GT(effects.bytes_grown, 0);
  EXPECT_EQ(segment.FindSession(kSession)->applied.At(Line::kArrival), 1u);
  EXPECT_EQ(segment.FindSession(kSession)->applied.At(Line::kAggregated), 0u);
  EXPECT_EQ(segment.rows(), 2u);
}

TEST(SegmentTest, AnEmptyPartOnlyTakesItsNumber) {
  Segment segment = WithSession();
  const Effects effects = segment.Apply(MakeUpdate(kSession, 1, {}));
  EXPECT_EQ(effects.rows_updated, 0u);
  EXPECT_EQ(segment.FindSession(kSession)->applied.At(Line::kArrival), 1u);
  EXPECT_EQ(segment.rows(), 0u);
}

TEST(SegmentTest, ClosedIdsStayClosedAboveAndBelowTheFloor) {
  Segment segment = WithSession();
  EXPECT_FALSE(segment.IsClosed(kSession));
  EXPECT_TRUE(segment.IsClosed(SessionId(2))) << "below the floor and not open";
  EXPECT_FALSE(segment.IsClosed(SessionId(9)));
  segment.Apply(Evict{kSession});
  segment.Apply(Evict{SessionId(9)});  // never opened here
  EXPECT_TRUE(segment.IsClosed(kSession));
  EXPECT_TRUE(segment.IsClosed(SessionId(9)));
  EXPECT_EQ(segment.FindSession(kSession), nullptr);
}

TEST(SegmentTest, EvictionTakesTheWorkerOutOfTheClock) {
  Segment segment = WithSession();
  segment.Apply(Join{.session = kSession, .start = 0, .rank = 0});
  EXPECT_TRUE(segment.ClockOf(kJob).HasWorker(kSession));
  segment.Apply(Evict{kSession});
  EXPECT_FALSE(segment.ClockOf(kJob).HasWorker(kSession));
}

TEST(SegmentTest, EqualLogsHashAlikeAndDifferentOnesDoNot) {
  const Record log[] = {MakeUpdate(kSession, 1, {{5, 1.0f}}), MakeUpdate(kSession, 2, {{6, 2.0f}, {5, 1.0f}}),
                        Join{.session = kSession, .start = 2, .rank = 1},
                        Advance{.job = kJob, .min_clock = 2}};
  Segment a = WithSession();
  Segment b = WithSession();
  for (const Record& record : log) {
    EXPECT_EQ(a.Hash(), b.Hash());
    a.Apply(record);
    EXPECT_NE(a.Hash(), b.Hash());
    b.Apply(record);
  }
  EXPECT_EQ(a.Hash(), b.Hash());
}

TEST(SegmentTest, ALookAtAClockChangesNothing) {
  Segment a = WithSession();
  const uint64_t before = a.Hash();
  a.ClockOf(JobId(9));
  EXPECT_EQ(a.Hash(), before) << "a primary looks at clocks that its replicas do not look at";
}

TEST(SegmentTest, TheFloorOfClosedIdsOnlyRisesAndListsNoneBelow) {
  Segment segment = WithSession();
  EXPECT_TRUE(segment.IsClosed(SessionId(3)));
  EXPECT_FALSE(segment.IsClosed(SessionId(4)));
  segment.Apply(Evict{SessionId(3)});
  EXPECT_EQ(ImageOf(segment).closed_size(), 0);
  segment.Apply(Evict{SessionId(5)});
  EXPECT_EQ(ImageOf(segment).closed_size(), 1);
  segment.Apply(OpenSession{.session = SessionId(9), .job = kJob, .closed_floor = SessionId(5)});
  EXPECT_EQ(ImageOf(segment).closed_size(), 0);
  segment.Apply(OpenSession{.session = SessionId(10), .job = kJob, .closed_floor = SessionId(2)});
  EXPECT_TRUE(segment.IsClosed(SessionId(4)));
  EXPECT_TRUE(segment.IsClosed(SessionId(5)));
  segment.Apply(OpenSession{.session = SessionId(11), .job = kJob, .closed_floor = SessionId(8)});
  EXPECT_FALSE(segment.IsClosed(kSession)) << "it is open";
}

TEST(SegmentTest, EffectsCountEveryRowAndByte) {
  Segment segment(SegmentId(0), 0);
  int64_t bytes = 0;
  const auto rows = [&](const Record& record) {
    const Effects effects = segment.Apply(record);
    bytes += effects.bytes_grown;
    EXPECT_EQ(bytes, static_cast<int64_t>(segment.bytes())) << record.index();
    return effects.rows_updated;
  };
  EXPECT_EQ(rows(OpenTable{SumTable(kJob)}), 0u);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(rows(OpenTable{SumTable(kJob)}), 0u) << "it is there";
  rows(OpenTable{AggregatedTable(kJob)});
  rows(OpenSession{.session = kSession, .job = kJob, .closed_floor = {}});
  EXPECT_EQ(rows(MakeUpdate(kSession, 1, {{5, 1.0f}, {6, 2.0f}})), 2u);
  EXPECT_EQ(rows(Fold{.job = kJob,
                      .clock = 0,
                      .tables = {{.table = kFoldedTable, .keys = {1, 2, 3}, .values = {1, 1, 1}},
                                 {.table = kSumTable, .keys = {7}, .values = {1}}},
                      .numbers = {{kSession, 4}}}),
            4u);
  EXPECT_EQ(segment.FindSession(kSession)->applied.At(Line::kAggregated), 4u);
  EXPECT_EQ(segment.MinClockOf(kJob), 1u);
  EXPECT_EQ(rows(Load{.table = kSumTable, .keys = {101, 102}, .rows = {1, 2}}), 2u);
  EXPECT_EQ(rows(DropTable{kFoldedTable}), 0u);
  rows(CloseJob{.job = kJob, .tables = {kSumTable}});
  EXPECT_EQ(bytes, 0);
}

TEST(SegmentTest, TheNextClockOfAJobFollowsTheLatestUpdateOfItsWorkers) {
  Segment segment = WithSession();
  segment.Apply(MakeUpdate(kSession, 1, {{5, 1.0f}}, /*clock=*/8));
  EXPECT_EQ(segment.NextClockOf(kJob), 0u) << "of a session that is no worker";
  segment.Apply(OpenSession{.session = SessionId(8), .job = kJob, .closed_floor = {}});
  segment.Apply(Join{.session = SessionId(8), .start = 0, .rank = 0});
  for (const auto& [number, clock] : {std::pair(1, 4), std::pair(2, 2)}) {
    segment.Apply(
        MakeUpdate(SessionId(8), static_cast<PartNumber>(number), {{5, 1.0f}}, static_cast<Clock>(clock)));
    EXPECT_EQ(segment.NextClockOf(kJob), 5u);
  }
  segment.Apply(MakeUpdate(SessionId(8), 3, {}, /*clock=*/9));
  EXPECT_EQ(segment.NextClockOf(kJob), 5u) << "an empty part is no update";
}

TEST(SegmentTest, AClosedJobLeavesNothing) {
  Segment segment = WithSession();
  segment.Apply(Cut{.id = 3, .job = kJob, .clock = 0});
  segment.Apply(EndLoad{.id = 4, .job = kJob, .clock = 6});
  EXPECT_EQ(segment.SnapshotsOf(kJob).cut, 3u);
  EXPECT_EQ(segment.SnapshotsOf(kJob).loaded, 4u);
  EXPECT_EQ(segment.MinClockOf(kJob), 6u);
  segment.Apply(Evict{kSession});
  segment.Apply(CloseJob{.job = kJob, .tables = {kSumTable}});
  EXPECT_EQ(segment.SnapshotsOf(kJob).cut, 0u);
  EXPECT_EQ(segment.SnapshotsOf(kJob).loaded, 0u);
  EXPECT_EQ(segment.MinClockOf(kJob), 0u);
  EXPECT_EQ(segment.FindTable(kSumTable), nullptr);
}

TEST(SegmentTest, RulesOfClocksThatAreOverAreForgotten) {
  Segment segment = WithSession();
  for (const Clock clock : {2, 7}) {
    segment.Apply(ChangeRule{.table = SumTable(kJob), .number = clock, .rule = table::Add{}, .clock = clock});
    segment.Apply(Advance{.job = kJob, .min_clock = 5});
  }
  EXPECT_EQ(ImageOf(segment).tables(0).rules_size(), 2) << "those of the clocks 2 and 7";
}

}  // namespace
}  // namespace paceline::log
