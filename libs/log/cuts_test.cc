#include "libs/log/cuts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr JobId kCutJob{1};
constexpr SessionId kWorker{7};

class CountedMemory : public RowMemory {
 public:
  bool Admits(uint64_t) override { return admits; }
  void Grown(int64_t by) override { bytes += by; }
  bool admits = true;
  int64_t bytes = 0;
};

class CutsTest : public ::testing::Test {
 protected:
  CutsTest() { segment.Apply(MakeUpdate(kWorker, 1, {{5, 1.0f}})); }
  absl::Status Wish(Clock clock, uint64_t id = 1, bool exact = false) {
    return cuts.Wish({.id = id, .job = kCutJob, .clock = clock, .at_once = false, .exact = exact}, segment,
                     now, &passed);
  }
  void Advance(Clock min_clock) { segment.Apply(log::Advance{.job = kCutJob, .min_clock = min_clock}); }
  // Logs the cut that is due.
  bool Log() {
    const auto cut = cuts.TakeDue(kCutJob, segment);
    if (!cut.has_value()) return false;
    segment.Apply(*cut);
    cuts.Logged(*cut, Epoch(3), now, segment);
    return true;
  }
  absl::StatusOr<bool> Next() { return cuts.Next(kCutJob, 1, segment, &rows); }

  absl::Time now = absl::UnixEpoch();
  Segment segment = SegmentWith(kCutJob, {kWorker});
  std::shared_ptr<CountedMemory> memory = std::make_shared<CountedMemory>();
  Cuts cuts{memory};
  std::optional<Clock> passed;
  table::CopiedRows rows;
};

TEST_F(CutsTest, ACutIsDueOnceTheMinClockHasReachedItsClock) {
  EXPECT_EQ(cuts.ClockOf(kCutJob), std::nullopt);
  ASSERT_TRUE(Wish(2).ok());
  EXPECT_EQ(cuts.ClockOf(kCutJob), 2u);
  Advance(1);
  EXPECT_FALSE(Log());
  Advance(2);
  EXPECT_TRUE(Log());
  EXPECT_EQ(cuts.ClockOf(kCutJob), std::nullopt);
  const auto copy = cuts.Take(kCutJob, 1, Epoch(3), now, segment);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->cut.clock, 2u);
  EXPECT_EQ(copy->epoch, Epoch(3));
  EXPECT_EQ(copy->lsn, segment.version());
  EXPECT_THAT(copy->workers, SizeIs(1));
  EXPECT_FALSE(cuts.Take(kCutJob, 1, Epoch(3), now, segment)) << "it was taken before";
}

TEST_F(CutsTest, AClockThatHasPassedIsNamed) {
  Advance(3);
  const absl::Status late = Wish(2);
  EXPECT_EQ(late.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(late.message(), HasSubstr("clock 3 is under way"));
  EXPECT_EQ(passed, 3u);
  EXPECT_FALSE(Log());
}

TEST_F(CutsTest, AWishIsForgottenWhenTheMinClockJumpsPastIt) {
  ASSERT_TRUE(Wish(2).ok());
  Advance(3);
  EXPECT_FALSE(Log());
  EXPECT_EQ(cuts.ClockOf(kCutJob), std::nullopt);
}

TEST_F(CutsTest, AnExactCutHoldsBackUpdatesOfItsClock) {
  ASSERT_TRUE(Wish(2, 1, /*exact=*/true).ok());
  EXPECT_FALSE(cuts.Awaits(MakeUpdate(kWorker, 2, {{5, 1.0f}}, 1), kCutJob, segment));
  EXPECT_TRUE(cuts.Awaits(MakeUpdate(kWorker, 2, {{5, 1.0f}}, 2), kCutJob, segment));
  EXPECT_FALSE(cuts.Awaits(MakeUpdate(SessionId(9), 2, {{5, 1.0f}}, 2), kCutJob, segment)) << "no worker";
}

TEST_F(CutsTest, GivesOutTheRowsOnce) {
  ASSERT_TRUE(Wish(0).ok());
  ASSERT_TRUE(Log());
  segment.Apply(MakeUpdate(kWorker, 2, {{5, 1.0f}}));
  EXPECT_TRUE(*Next());
  EXPECT_FALSE(*Next());
  EXPECT_EQ(Next().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(memory->bytes, 0) << "rows that were kept take no memory any more";
}

TEST_F(CutsTest, WithoutMemoryTheCopyFails) {
  memory->admits = false;
  ASSERT_TRUE(Wish(0).ok());
  ASSERT_TRUE(Log());
  segment.Apply(MakeUpdate(kWorker, 2, {{5, 1.0f}}));
  EXPECT_EQ(Next().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CutsTest, UnusedWishesAndCopiesAreForgotten) {
  ASSERT_TRUE(Wish(2).ok());
  cuts.OnTime(now + Cuts::kAskedMax, segment);
  EXPECT_EQ(cuts.ClockOf(kCutJob), 2u);
  cuts.OnTime(now + Cuts::kAskedMax + absl::Milliseconds(1), segment);
  EXPECT_EQ(cuts.ClockOf(kCutJob), std::nullopt);

  ASSERT_TRUE(Wish(0).ok());
  ASSERT_TRUE(Log());
  now += Cuts::kKeptMax;
  ASSERT_TRUE(Wish(0).ok()) << "the coordinator asks again";
  cuts.OnTime(now + Cuts::kKeptMax, segment);
  EXPECT_TRUE(*Next());
  cuts.OnTime(now + Cuts::kKeptMax + absl::Milliseconds(1), segment);
  EXPECT_EQ(Next().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CutsTest, AClosedJobHasNoCuts) {
  ASSERT_TRUE(Wish(2).ok());
  cuts.Forget(kCutJob);
  Advance(2);
  EXPECT_FALSE(Log());
}

}  // namespace
}  // namespace paceline::log
