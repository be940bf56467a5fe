#include "libs/log/uncommitted.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr JobId kClockJob{1};

class NotedMarks : public AckSink {
 public:
  void Committed(wire::Mark mark) override { numbers.push_back(mark.number); }
  std::vector<PartNumber> numbers;
};

wire::Mark NumberedMark(PartNumber number) {
  wire::Mark mark;
  mark.number = number;
  return mark;
}

TEST(UncommittedMarksTest, AMarkIsToldOnceItsRecordIsCommitted) {
  const auto a = std::make_shared<NotedMarks>();
  const auto b = std::make_shared<NotedMarks>();
  Uncommitted uncommitted;
  uncommitted.Add(Lsn(3), a, NumberedMark(1));
  uncommitted.Add(Lsn(4), a, NumberedMark(2));
  uncommitted.Add(Lsn(5), b, NumberedMark(1));
  uncommitted.Add(Lsn(6), a, NumberedMark(3));
  EXPECT_THAT(uncommitted.Tell(Lsn(2)), IsEmpty());
  EXPECT_THAT(uncommitted.Tell(Lsn(5)), ElementsAre(a, b));
  EXPECT_THAT(a->numbers, ElementsAre(1, 2));
  EXPECT_THAT(b->numbers, ElementsAre(1));
  EXPECT_EQ(uncommitted.marks(), 1u);
  EXPECT_THAT(uncommitted.Tell(Lsn(6)), ElementsAre(a));
  EXPECT_EQ(uncommitted.marks(), 0u);
}

class UncommittedClocksTest : public ::testing::Test {
 protected:
  // Returns the record's number.
  Lsn Advance(Clock min_clock) {
    segment.Apply(log::Advance{.job = kClockJob, .min_clock = min_clock});
    uncommitted.BeginEpoch(segment, Lsn(0));
    return segment.version();
  }
  Segment segment = SegmentWith(kClockJob, {SessionId(7)});
  Uncommitted uncommitted;
};

TEST_F(UncommittedClocksTest, AMinClockIsShownOnceItsRecordIsCommitted) {
  const Lsn one = Advance(1), three = Advance(3);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, Lsn(one.v - 1)), 0u);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, one), 1u);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, three), 3u);
  EXPECT_EQ(uncommitted.MinClock(JobId(2), three), 0u);
}

TEST_F(UncommittedClocksTest, ANewEpochShowsNoneBeforeItsFirstRecordIsCommitted) {
  segment.Apply(log::Advance{.job = kClockJob, .min_clock = 5});
  uncommitted.BeginEpoch(segment, Lsn(0));
  EXPECT_EQ(uncommitted.MinClock(kClockJob, Lsn(segment.version().v - 1)), 0u);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, segment.version()), 5u);
}

TEST_F(UncommittedClocksTest, AClosedJobIsForgotten) {
  const Lsn one = Advance(1);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, one), 1u);
  const Lsn two = Advance(2);
  uncommitted.Forget(kClockJob);
  EXPECT_EQ(uncommitted.MinClock(kClockJob, two), 0u);
}

TEST(UncommittedChangesTest, AChangeIsSafeWithItsRecordOrTheEpoch) {
  Uncommitted uncommitted;
  uncommitted.AddChange(1, 7, Lsn(9));
  EXPECT_FALSE(uncommitted.IsSafe(1, 7, /*before=*/Lsn(4), /*safe=*/Lsn(8)));
  EXPECT_TRUE(uncommitted.IsSafe(1, 7, Lsn(4), Lsn(9)));
  EXPECT_FALSE(uncommitted.IsSafe(1, 8, Lsn(4), Lsn(3))) << "of an earlier primary";
  EXPECT_TRUE(uncommitted.IsSafe(1, 8, Lsn(4), Lsn(4)));
}

}  // namespace
}  // namespace paceline::log
