#include "libs/world/random.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::world {
namespace {

// Gives the numbers it was made with, in order.
class Scripted final : public Random {
 public:
  explicit Scripted(std::vector<uint64_t> numbers) : numbers_(std::move(numbers)) {}
  uint64_t Next() override { return numbers_.at(drawn_++); }
  size_t drawn() const { return drawn_; }

 private:
  std::vector<uint64_t> numbers_;
  size_t drawn_ = 0;
};

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(SplitMix64Test, PublishedSequences) {
  SplitMix64 zero(0);
  for (uint64_t expected : {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu}) {
    EXPECT_EQ(zero.Next(), expected);
  }
  SplitMix64 other(1234567);
  for (uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u}) {
    EXPECT_EQ(other.Next(), expected);
  }
}

TEST(UniformTest, FrozenSequence) {
  SplitMix64 random(42);
  for (uint64_t expected : {7, 1, 2, 3, 0, 8, 2, 8, 3, 6, 2, 4}) {
    EXPECT_EQ(Uniform(random, 10), expected);
  }
}

TEST(UniformTest, StaysInBoundsAndReachesThem) {
  Scripted ends({0, kMost, 0, kMost});
  EXPECT_EQ(Uniform(ends, 1), 0u);
  EXPECT_EQ(Uniform(ends, 1), 0u);
  EXPECT_EQ(Uniform(ends, kMost - 1), kMost - 2) << "0 is one of the draws too many, and is drawn again";
  SplitMix64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t n = random.Next() >> Uniform(random, 64);
    EXPECT_LT(Uniform(random, n | 1), n | 1);
  }
}

TEST(UniformTest, RejectsExactlyTheDrawsTooMany) {
  // 2^64 mod 3 = 1: of all draws only 0 is rejected.
  Scripted random({0, 1, kMost});
  EXPECT_EQ(Uniform(random, 3), 0u);
  EXPECT_EQ(random.drawn(), 2u);
  EXPECT_EQ(Uniform(random, 3), 2u);
}

TEST(UniformTest, IsEven) {
  SplitMix64 random(99);
  std::vector<int> counts(10, 0);
  for (int i = 0; i < 100000; ++i) {
    ++counts[Uniform(random, counts.size())];
  }
  for (int count : counts) {
    EXPECT_NEAR(count, 10000, 400);  // four standard deviations
  }
}

TEST(UnitIntervalTest, BoundsAndSteps) {
  Scripted random({0, kMost, uint64_t{1} << 63, 2047, 2048});
  EXPECT_EQ(UnitInterval(random), 0.0);
  EXPECT_EQ(UnitInterval(random), 1.0 - 0x1p-53);
  EXPECT_EQ(UnitInterval(random), 0.5);
  EXPECT_EQ(UnitInterval(random), 0.0);
  EXPECT_EQ(UnitInterval(random), 0x1p-53);
}

TEST(ChanceTest, NeverAlwaysAndBetween) {
  Scripted random({0, kMost, 0, uint64_t{1} << 63});
  EXPECT_FALSE(Chance(random, 0.0));
  EXPECT_TRUE(Chance(random, 1.0));
  EXPECT_TRUE(Chance(random, 0.5));
  EXPECT_FALSE(Chance(random, 0.5));
  EXPECT_EQ(random.drawn(), 4u) << "one draw each, whatever the probability";
}

}  // namespace
}  // namespace paceline::world
