#include "libs/world/real_clock.h"

#include <thread>

#include "gtest/gtest.h"

namespace paceline::world {
namespace {

TEST(RealClockTest, MovesForwardOnly) {
  const RealClock clock;
  const absl::Time start = clock.Now();
  absl::Time last = start;
  // Bounded by work rather than by time: should the clock stand still, the test ends and says so.
  for (int i = 0; i < 10'000'000 && last - start < absl::Microseconds(100); ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GE(last - start, absl::Microseconds(100));
}

TEST(RealClockTest, IsOneClockForAllThreads) {
  const RealClock clock;
  absl::Time seen = clock.Now();
  for (int i = 0; i < 100; ++i) {
    std::thread reader([&] {
      const absl::Time now = clock.Now();
      EXPECT_GE(now, seen);
      seen = now;
    });
    reader.join();
  }
}

}  // namespace
}  // namespace paceline::world
