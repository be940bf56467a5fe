#include "libs/clock/consistency.h"

#include "gtest/gtest.h"

namespace paceline::clock {
namespace {

TEST(ConsistencyTest, AReadAsksForAllUpdatesOlderThanItsBound) {
  EXPECT_EQ(MinClockFor(0, 7), 7u);
  EXPECT_EQ(MinClockFor(2, 7), 5u);
}

TEST(ConsistencyTest, TheBoundSaturatesAtTheStart) {
  EXPECT_EQ(MinClockFor(8, 7), 0u);
  EXPECT_EQ(MinClockFor(UINT64_MAX, UINT64_MAX), 0u);
}

TEST(ConsistencyTest, ObservedStalenessIsNeverNegative) {
  EXPECT_EQ(ObservedStaleness(5, 3), 2u);
  EXPECT_EQ(ObservedStaleness(3, 5), 0u);
}

}  // namespace
}  // namespace paceline::clock
