#include "libs/table/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

ExactSum SumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.Add(value);
  return sum;
}

// Any finite f32, from the smallest to the largest.
float AnyFloat(world::Random& random) {
  while (true) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
    if (std::isfinite(value)) return value;
  }
}

TEST(ExactSum, OfNothingIsZero) {
  EXPECT_EQ(ExactSum().Rounded(), 0);
  EXPECT_EQ(SumOf({0.0, -0.0}).Rounded(), 0);
  EXPECT_FALSE(std::signbit(SumOf({-0.0}).Rounded()));
}

TEST(ExactSum, OfOneValueIsTheValue) {
  world::SplitMix64 random(1);
  std::vector<float> values = {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::max(), 1.0f, 0.1f};
  for (int i = 0; i < 10'000; ++i) values.push_back(AnyFloat(random));
  for (const float value : values) {
    EXPECT_EQ(SumOf({value}).Rounded(), value);
    EXPECT_EQ(SumOf({-value}).Rounded(), -value);
    const double square = double{value} * double{value};
    EXPECT_EQ(SumOf({square}).Rounded(), square) << value;
  }
}

TEST(ExactSum, KeepsWhatAdditionInDoublesLoses) {
  const double huge = std::numeric_limits<float>::max();
  const double tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(SumOf({huge, tiny, -huge}).Rounded(), tiny);
  EXPECT_EQ(SumOf({huge * huge, tiny * tiny}).Rounded(), huge * huge);
  EXPECT_EQ(SumOf({tiny, -huge, 1, huge, -1}).Rounded(), tiny);
}

// Whole numbers up to 2^24, whose sums a 64-bit integer has: the slow, obvious reference.
TEST(ExactSum, EqualsIntegers) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    world::SplitMix64 random(seed);
    ExactSum sum;
    int64_t expected = 0;
    for (int i = 0; i < 3'000; ++i) {
      const int64_t value = static_cast<int64_t>(world::Uniform(random, uint64_t{1} << 25)) - (1 << 24);
      sum.Add(static_cast<double>(value));
      expected += value;
    }
    EXPECT_EQ(sum.Rounded(), static_cast<double>(expected)) << "seed " << seed;
  }
}

// Half of the last bit goes to the even neighbour, and anything beyond the half goes up.
TEST(ExactSum, RoundsOnceAndToEven) {
  const double one = 1;
  const double half = std::ldexp(1, -53);  // of the last bit of 1
  EXPECT_EQ(SumOf({one, half}).Rounded(), 1);
  EXPECT_EQ(SumOf({one, 3 * half}).Rounded(), 1 + 4 * half);
  EXPECT_EQ(SumOf({one, half, std::ldexp(1, -149)}).Rounded(), 1 + 2 * half);
  EXPECT_EQ(SumOf({one, half, -std::ldexp(1, -149)}).Rounded(), 1);
  EXPECT_EQ(SumOf({-one, -half, -std::ldexp(1, -149)}).Rounded(), -1 - 2 * half);
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    world::SplitMix64 random(seed);
    std::vector<double> values;
    for (int i = 0; i < 2'000; ++i) {
      const float value = AnyFloat(random);
      values.push_back(i % 2 == 0 ? double{value} : double{value} * double{value});
    }
    const ExactSum sum = SumOf(values);
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[world::Uniform(random, i)]);
    EXPECT_EQ(SumOf(values).Canonical(), sum.Canonical()) << "seed " << seed;
    // In parts, too.
    ExactSum parts;
    for (size_t from = 0; from < values.size(); from += 300) {
      const size_t to = std::min(values.size(), from + 300);
      parts.Add(
          SumOf({values.begin() + static_cast<int64_t>(from), values.begin() + static_cast<int64_t>(to)}));
    }
    EXPECT_EQ(parts.Canonical(), sum.Canonical()) << "seed " << seed;
    EXPECT_EQ(parts.Rounded(), sum.Rounded());
  }
}

TEST(ExactSum, ComesBackFromItsLimbs) {
  world::SplitMix64 random(3);
  ExactSum sum;
  for (int i = 0; i < 1'000; ++i) sum.Add(-std::fabs(AnyFloat(random)));
  ExactSum back;
  ASSERT_TRUE(back.Set(sum.Canonical()));
  EXPECT_EQ(back.Canonical(), sum.Canonical());
  EXPECT_EQ(back.Rounded(), sum.Rounded());
  ExactSum::Limbs wrong = {};
  wrong[3] = -1;
  EXPECT_FALSE(back.Set(wrong));
  wrong[3] = int64_t{1} << 32;
  EXPECT_FALSE(back.Set(wrong));
  wrong = {};
  wrong.back() = int64_t{1} << 40;
  EXPECT_FALSE(back.Set(wrong));
  EXPECT_EQ(back.Canonical(), sum.Canonical()) << "nothing has changed";
}

}  // namespace
}  // namespace paceline::table
