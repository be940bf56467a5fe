#include "libs/filter/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace paceline::filter {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(MagnitudeTest, IsTheLargestAbsoluteValue) {
  EXPECT_EQ(MagnitudeOf(std::vector<float>{1, -3, 2}), 3);
  EXPECT_EQ(MagnitudeOf(std::vector<float>{-0.0f}), 0);
  EXPECT_EQ(MagnitudeOf(std::vector<float>{1, -kInfinity}), kInfinity);
  EXPECT_TRUE(std::isnan(MagnitudeOf(std::vector<float>{1, std::nanf(""), 2})));
}

TEST(TopKTest, TheLargestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(TopK(0.5).Choose(std::vector<float>{1, 3, 2, 3}), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(TopK(0.5).Choose(std::vector<float>{1, 1, 1, 1}), (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(TopK(0.1).Choose(std::vector<float>{1, 2}), (std::vector<bool>{false, true})) << "rounded up";
  EXPECT_EQ(TopK(1).Choose(std::vector<float>{1, 2}), (std::vector<bool>{true, true}));
  EXPECT_EQ(TopK(0.5).Choose({}), std::vector<bool>{});
  EXPECT_EQ(TopK(0.25).Choose(std::vector<float>{9, std::nanf(""), 8, 7}),
            (std::vector<bool>{false, true, false, false}))
      << "what is not finite cannot wait";
}

TEST(TopKTest, NoRowThatWaitsIsLargerThanOneThatIsSent) {
  world::SplitMix64 random(5);
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> magnitudes(1 + world::Uniform(random, 50));
    for (float& magnitude : magnitudes) magnitude = static_cast<float>(world::Uniform(random, 20));
    const TopK top(world::UnitInterval(random) + 1e-9);
    const std::vector<bool> sent = top.Choose(magnitudes);
    ASSERT_EQ(static_cast<uint64_t>(std::ranges::count(sent, true)), top.Count(magnitudes.size()));
    float least = kInfinity, most = 0;
    for (size_t k = 0; k < sent.size(); ++k) {
      if (sent[k]) least = std::min(least, magnitudes[k]);
      if (!sent[k]) most = std::max(most, magnitudes[k]);
    }
    ASSERT_LE(most, least);
  }
}

TEST(RandomSkipTest, SendsItsShare) {
  world::SplitMix64 random(6);
  int sent = 0;
  for (int i = 0; i < 10000; ++i) sent += RandomSkip(0.75).Sends(random);
  EXPECT_NEAR(sent, 2500, 200);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(RandomSkip(0).Sends(random));
}

TEST(SignificantTest, FromItsThresholdOn) {
  const Significant absolute({.threshold = 0.5});
  EXPECT_FALSE(absolute.Sends(0.25f, 100, 3));
  EXPECT_TRUE(absolute.Sends(0.5f, 100, 3));
  const Significant relative({.threshold = 0.5, .relative = true});
  EXPECT_FALSE(relative.Sends(0.5f, 4, 0));
  EXPECT_TRUE(relative.Sends(2.0f, 4, 0));
  EXPECT_TRUE(relative.Sends(1e-30f, 0, 0)) << "of a value of 0 any change is";
  EXPECT_FALSE(relative.Sends(0, 0, 0)) << "but not none";
  EXPECT_TRUE(absolute.Sends(kInfinity, 0, 0));
  EXPECT_TRUE(absolute.Sends(std::nanf(""), 0, 0));
}

TEST(SignificantTest, TheThresholdDecaysWithTheRootOfTheClock) {
  const Significant decays({.threshold = 1, .decays = true});
  EXPECT_FALSE(decays.Sends(0.75f, 0, 0));
  EXPECT_FALSE(decays.Sends(0.25f, 0, 14));
  EXPECT_TRUE(decays.Sends(0.25f, 0, 15)) << "a quarter at the 16th clock";
}

}  // namespace
}  // namespace paceline::filter
