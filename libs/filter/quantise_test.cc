#include "libs/filter/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

uint32_t Bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

float Rounded(Precision precision, float value) {
  Quantise(precision, {&value, 1});
  return value;
}

// All finite f32 that are not negative and that the precision carries, in order, computed another way than by
// the code: from the definition of the format.
std::vector<float> Carried(int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<float> carried;
  for (int exponent = 0; exponent < (1 << exponent_bits) - 1; ++exponent) {
    for (int mantissa = 0; mantissa < 1 << mantissa_bits; ++mantissa) {
      const double unit = std::ldexp(1.0, std::max(exponent, 1) - bias - mantissa_bits);
      carried.push_back(static_cast<float>((mantissa + (exponent > 0 ? 1 << mantissa_bits : 0)) * unit));
    }
  }
  return carried;
}

// What is carried stays; between two neighbours the nearer one is taken, and the even one of both in the
// middle.
void ExpectNearest(Precision precision, const std::vector<float>& carried) {
  for (size_t i = 0; i + 1 < carried.size(); ++i) {
    const float low = carried[i], high = carried[i + 1];
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    for (const float sign : {1.0f, -1.0f}) {
      ASSERT_EQ(Bits(Rounded(precision, sign * low)), Bits(sign * low)) << low;
      ASSERT_EQ(Rounded(precision, sign * std::nextafter(middle, low)), sign * low) << low;
      ASSERT_EQ(Rounded(precision, sign * middle), sign * (i % 2 == 0 ? low : high)) << low;
      ASSERT_EQ(Rounded(precision, sign * std::nextafter(middle, high)), sign * high) << low;
    }
  }
  EXPECT_EQ(Rounded(precision, kLargest), carried.back());
  EXPECT_EQ(Rounded(precision, -kLargest), -carried.back());
}

TEST(QuantiseTest, F32StaysAsItIs) {
  for (const float value : {0.0f, -0.0f, 1.1f, -kLargest, kSmallest}) {
    EXPECT_EQ(Bits(Rounded(Precision::kF32, value)), Bits(value));
  }
}

TEST(QuantiseTest, EveryBinary16StaysAndWhatIsBetweenGoesToTheNearest) {
  const std::vector<float> carried = Carried(5, 10);
  ASSERT_EQ(carried.back(), 65504.0f);
  ExpectNearest(Precision::kF16, carried);
}

TEST(QuantiseTest, EveryBfloat16StaysAndWhatIsBetweenGoesToTheNearest) {
  ExpectNearest(Precision::kBf16, Carried(8, 7));
}

TEST(QuantiseTest, WhatIsNotFiniteStaysSo) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Precision precision : {Precision::kF16, Precision::kBf16, Precision::kInt8}) {
    EXPECT_EQ(Rounded(precision, infinity), infinity);
    EXPECT_EQ(Rounded(precision, -infinity), -infinity);
    // A NaN whose payload is in the bits that are dropped only.
    EXPECT_TRUE(std::isnan(Rounded(precision, std::bit_cast<float>(0x7f800001u))));
  }
}

TEST(QuantiseTest, Int8IsOnePowerOfTwoARow) {
  std::vector<float> row = {127.0f, 0.5f, 1.5f, -2.5f, 0.4f, -126.7f};
  Quantise(Precision::kInt8, row);
  EXPECT_EQ(row, (std::vector<float>{127, 0, 2, -2, 0, -127}));
  row = {127.1f, 1.0f, 3.0f, -5.0f};  // 127 ones do not reach: steps of 2
  Quantise(Precision::kInt8, row);
  EXPECT_EQ(row, (std::vector<float>{128, 0, 4, -4}));
  row = {-0.0f, 0.0f};
  Quantise(Precision::kInt8, row);
  EXPECT_EQ(Bits(row[0]), Bits(0.0f)) << "integers have one zero";
  row = {kLargest, -kLargest};
  Quantise(Precision::kInt8, row);
  EXPECT_EQ(row, (std::vector<float>{std::ldexp(127.0f, 121), -std::ldexp(127.0f, 121)}));
}

// The scale of a row as the header says it, found by trying.
int ScaleOf(const std::vector<float>& row) {
  double largest = 0;
  for (const float value : row) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  int exponent = -134;
  while (exponent < 121 && std::ldexp(127.0, exponent) < largest) ++exponent;
  return exponent;
}

TEST(QuantiseTest, Int8IsWithinHalfAStepAndIdempotent) {
  world::SplitMix64 random(18);
  for (int i = 0; i < 20000; ++i) {
    std::vector<float> row(1 + world::Uniform(random, 20));
    const int scale = static_cast<int>(world::Uniform(random, 270)) - 145;
    for (float& value : row) {
      value = static_cast<float>(
          std::ldexp(static_cast<double>(world::Uniform(random, 2000001)) - 1e6, scale - 20));
    }
    std::vector<float> rounded = row;
    Quantise(Precision::kInt8, rounded);
    const int exponent = ScaleOf(row);
    for (size_t k = 0; k < row.size(); ++k) {
      const double steps = rounded[k] / std::ldexp(1.0, exponent);
      ASSERT_EQ(steps, std::nearbyint(steps));
      ASSERT_LE(std::fabs(steps), 127);
      ASSERT_LE(std::fabs(static_cast<double>(row[k]) - rounded[k]), std::ldexp(0.5, exponent)) << exponent;
    }
    std::vector<float> again = rounded;
    Quantise(Precision::kInt8, again);
    for (size_t k = 0; k < row.size(); ++k) ASSERT_EQ(Bits(again[k]), Bits(rounded[k]));
  }
}

}  // namespace
}  // namespace paceline::filter
