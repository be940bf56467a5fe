#include "libs/clock/consistency.h"

#include "gtest/gtest.h"

namespace paceline::clock {
namespace {

TEST(ConsistencyTest, SspAsksForAllUpdatesOlderThanItsBound) {
  EXPECT_EQ(MinClockFor(Ssp{0}, 7), 7u);
  EXPECT_EQ(MinClockFor(Ssp{2}, 7), 5u);
}

TEST(ConsistencyTest, SspSaturatesAtTheStart) {
  EXPECT_EQ(MinClockFor(Ssp{8}, 7), 0u);
  EXPECT_EQ(MinClockFor(Ssp{UINT64_MAX}, UINT64_MAX), 0u);
}

TEST(ConsistencyTest, AspAsksForNothing) {
  EXPECT_EQ(MinClockFor(Asp{}, 1'000'000), 0u);
}

TEST(ConsistencyTest, BspAsksForAllUpdatesBeforeItsClock) {
  EXPECT_EQ(MinClockFor(Bsp{}, 7), 7u);
}

TEST(ConsistencyTest, ObservedStalenessIsNeverNegative) {
  EXPECT_EQ(ObservedStaleness(5, 3), 2u);
  EXPECT_EQ(ObservedStaleness(3, 5), 0u);
}

}  // namespace
}  // namespace paceline::clock
