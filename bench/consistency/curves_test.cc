#include "bench/consistency/curves.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::bench {
namespace {

using ::testing::Optional;

// Ten examples a point.
std::vector<examples::LossPoint> Curve(const std::vector<double>& losses) {
  std::vector<examples::LossPoint> curve;
  for (const double loss : losses) {
    const uint64_t points = curve.size() + 1;
    curve.push_back({.examples = 10 * points,
                     .clock = 2 * points,
                     .seconds = 0.5 * static_cast<double>(points),
                     .loss = loss});
  }
  return curve;
}

TEST(AreaPerClockTest, IsTheMeanOfTrapezoids) {
  EXPECT_DOUBLE_EQ(AreaPerClock(Curve({4, 2, 2})), (3.0 + 2.0) / 2);
  EXPECT_DOUBLE_EQ(AreaPerClock(Curve({3, 3})), 3);
}

TEST(AreaPerClockTest, OfNothingIsZero) {
  EXPECT_EQ(AreaPerClock({}), 0);
  EXPECT_EQ(AreaPerClock(Curve({4})), 0);
}

TEST(SecondsToTest, TheMeanOfTheLastExamplesCounts) {
  const auto curve = Curve({4, 1, 3, 2, 2});
  EXPECT_THAT(SecondsTo(curve, 1, 10), Optional(1.0)) << "of one point";
  EXPECT_THAT(SecondsTo(curve, 2, 20), Optional(1.5)) << "(1 + 3) / 2";
  EXPECT_THAT(SecondsTo(curve, 2, 30), Optional(2.0)) << "(1 + 3 + 2) / 3";
}

TEST(SecondsToTest, BetweenPointsTheLossFallsEvenly) {
  const auto curve = Curve({4, 1, 3});
  EXPECT_THAT(SecondsTo(curve, 2.5, 10), Optional(0.75));
  EXPECT_THAT(SecondsTo(curve, 5, 10), Optional(0.5)) << "at the first point";
}

TEST(SecondsToTest, TooFewExamplesSayNothing) {
  EXPECT_EQ(SecondsTo(Curve({1, 1}), 2, 21), std::nullopt);
  EXPECT_EQ(SecondsTo({}, 2, 1), std::nullopt);
}

TEST(SecondsToTest, ALossThatIsNotReached) {
  EXPECT_EQ(SecondsTo(Curve({4, 3, 2}), 1.9, 10), std::nullopt);
}

TEST(StalenessTest, SharesOfReads) {
  const std::map<uint64_t, uint64_t> rows = {{0, 50}, {1, 30}, {7, 19}, {9, 1}};
  EXPECT_DOUBLE_EQ(ShareUpTo(rows, 1), 0.8);
  EXPECT_DOUBLE_EQ(ShareUpTo(rows, 9), 1);
  EXPECT_EQ(ShareUpTo({}, 9), 0);
  EXPECT_EQ(ValuesWithShare(rows, 0.19), 3u);
  EXPECT_EQ(ValuesWithShare(rows, 0.01), 4u);
}

}  // namespace
}  // namespace paceline::bench
