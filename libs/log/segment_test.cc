#include "libs/log/segment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace paceline::log
