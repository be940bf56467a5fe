#include "bench/consistency/pauses.h"

#include <set>

#include "bench/consistency/runs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::bench {
namespace {

uint64_t SlowClocks(const Pauses& pauses, uint32_t rank, uint64_t block) {
  uint64_t slow = 0;
  for (uint64_t c = 0; c < Pauses::kBlock; ++c) slow += IsSlow(pauses, rank, block * Pauses::kBlock + c);
  return slow;
}

TEST(PausesTest, EachWorkerIsSlowOnceInEachBlock) {
  for (uint32_t rank = 0; rank < kTrainedWorkers; ++rank) {
    for (uint64_t block = 0; block < 100; ++block) EXPECT_EQ(SlowClocks({}, rank, block), 1u);
  }
}

TEST(PausesTest, WorkersAreSlowAtDifferentClocks) {
  std::set<uint64_t> clocks;  // of the first hundred blocks, at which somebody is slow
  for (uint64_t clock = 0; clock < 100 * Pauses::kBlock; ++clock) {
    for (uint32_t rank = 0; rank < kTrainedWorkers; ++rank) {
      if (IsSlow({}, rank, clock)) clocks.insert(clock);
    }
  }
  // Eight times 1 - (7/8)^4 in a block, if they do not follow each other.
  EXPECT_GT(clocks.size(), 290u);
  EXPECT_LT(clocks.size(), 370u);
}

TEST(PausesTest, ASlowClockIsLonger) {
  const Pauses pauses = {.each = absl::Milliseconds(3), .slow = absl::Milliseconds(50)};
  const auto pause = PauseOf(pauses);
  for (uint64_t clock = 0; clock < Pauses::kBlock; ++clock) {
    EXPECT_EQ(pause(1, clock), absl::Milliseconds(IsSlow(pauses, 1, clock) ? 53 : 3));
  }
}

TEST(PausesTest, NobodyIsSlowInEvenRuns) {
  const auto pause = PauseOf({.kind = Pauses::Kind::kEven, .each = absl::Milliseconds(3)});
  for (uint64_t clock = 0; clock < 100; ++clock) EXPECT_EQ(pause(0, clock), absl::Milliseconds(3));
}

TEST(PausesTest, ABeatIsAwaitedByAllAndAMissedOneByNobody) {
  const auto pause = PauseOf({.kind = Pauses::Kind::kBeat, .each = absl::Hours(1)});
  const absl::Duration first = pause(0, 5);
  EXPECT_LE(first, absl::Hours(1));
  EXPECT_GT(first, absl::Minutes(59));
  EXPECT_GT(pause(1, 6), absl::Minutes(119)) << "one clock ahead";
  EXPECT_EQ(pause(2, 4), absl::ZeroDuration()) << "a clock behind";
}

}  // namespace
}  // namespace paceline::bench
