#include "libs/table/initialiser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "libs/table/test_util.h"

namespace paceline::table {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

std::vector<float> Row(const Initialiser& init, uint64_t seed, uint64_t key, uint32_t dim) {
  std::vector<float> row(dim);
  Fill(init, seed, key, 0, absl::MakeSpan(row));
  return row;
}

uint32_t BitsAt(const Initialiser& init, uint64_t seed, uint64_t key, uint32_t column) {
  float value;
  Fill(init, seed, key, column, {&value, 1});
  return std::bit_cast<uint32_t>(value);
}

// Computed by an independent program from the formulas in initialiser.h. They must never change: rows that
// were never stored would.
TEST(InitialiserTest, Vectors) {
  struct {
    uint64_t seed, key;
    uint32_t column, uniform, normal;
  } const vectors[] = {{0, 0, 0, 0x3e2661f9, 0x405889ab},
                       {0, 0, 1, 0xbe349625, 0x3f27b001},
                       {1, 0, 0, 0xbed8c062, 0xbfc4e12e},
                       {42, 7, 3, 0x3d51e966, 0x4010623b},
                       {kMax, kMax, 16381, 0x3e6350f6, 0x40921183}};
  for (const auto& v : vectors) {
    EXPECT_EQ(BitsAt(Uniform{-0.5f, 0.25f}, v.seed, v.key, v.column), v.uniform);
    EXPECT_EQ(BitsAt(Normal{1, 2}, v.seed, v.key, v.column), v.normal);
  }
}

TEST(InitialiserTest, ZerosAndConstants) {
  EXPECT_EQ(Row(Zeros{}, 5, 6, 3), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Row(Constant{-1.5f}, 5, 6, 3), (std::vector<float>{-1.5f, -1.5f, -1.5f}));
}

TEST(InitialiserTest, PiecesOfARowAreThoseOfTheWhole) {
  for (const Initialiser& init : {Initialiser(Uniform{}), Initialiser(Normal{})}) {
    const std::vector<float> whole = Row(init, 3, 99, 40);
    std::vector<float> pieces(40);
    for (uint32_t first = 0; first < 40; first += 8) {
      Fill(init, 3, 99, first, absl::MakeSpan(pieces).subspan(first, 8));
    }
    EXPECT_EQ(Bits(whole), Bits(pieces));
  }
}

TEST(InitialiserTest, SeedKeyAndColumnAllMatter) {
  const auto at = [](uint64_t seed, uint64_t key, uint32_t column) {
    return BitsAt(Uniform{}, seed, key, column);
  };
  EXPECT_NE(at(1, 2, 3), at(2, 2, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 3, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 2, 4));
}

TEST(InitialiserTest, UniformKeepsItsBounds) {
  for (const Uniform& init :
       {Uniform{-3, 5}, Uniform{1, std::nextafter(1.0f, 2.0f)}, Uniform{-3e38f, 3e38f}}) {
    for (uint64_t key = 0; key < 1000; ++key) {
      for (const float value : Row(init, 1, key, 16)) {
        EXPECT_GE(value, init.low);
        EXPECT_LE(value, init.high);
      }
    }
  }
}

TEST(InitialiserTest, LogAgreesWithLibm) {
  for (double x = 0x1p-60; x < 0.5; x *= 1.000173) {
    EXPECT_NEAR(internal::Log(x), std::log(x), 4.5e-16 * std::abs(std::log(x))) << x;
  }
  EXPECT_EQ(internal::Log(1), 0);
}

// The quantile put into the distribution function gives p back, over the whole range of p and closely at the
// seams between the pieces of the approximation.
TEST(InitialiserTest, NormalQuantileInvertsErfc) {
  std::vector<double> ps = {0x1p-53, 0.075, 0.925, 0x1.5p-37, std::exp(-25.0)};
  for (double p = 0x1p-53; p < 0.5; p *= 1.00137) ps.push_back(p);
  for (double d = -1e-6; d < 1e-6; d += 1e-8) {
    ps.push_back(0.075 + d);
    ps.push_back(std::exp(-25.0) * (1 + d));
  }
  for (const double p : ps) {
    const double z = internal::NormalQuantile(p);
    const double back = 0.5 * std::erfc(-z / std::sqrt(2.0));
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    EXPECT_LE(std::abs(back - p) / density, 1e-14 * std::max(1.0, std::abs(z))) << p;
  }
}

TEST(InitialiserTest, NormalQuantileIsOddAndGrows) {
  EXPECT_EQ(internal::NormalQuantile(0.5), 0);
  double last = -10;
  for (uint64_t i = 1; i < (uint64_t{1} << 53); i += (uint64_t{1} << 53) / 10007) {
    const double p = static_cast<double>(i | 1) * 0x1p-53;
    const double z = internal::NormalQuantile(p);
    EXPECT_EQ(internal::NormalQuantile(1 - p), -z);
    EXPECT_GT(z, last);
    last = z;
  }
  EXPECT_LT(internal::NormalQuantile(1 - 0x1p-53), 8.21);
}

// Kolmogorov-Smirnov distance of sorted samples from a distribution function, times sqrt(n).
template <class Cdf>
double Distance(std::vector<float> samples, Cdf cdf) {
  std::sort(samples.begin(), samples.end());
  const double n = static_cast<double>(samples.size());
  double distance = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double p = cdf(samples[i]);
    distance = std::max({distance, p - i / n, (i + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

std::vector<float> Sample(const Initialiser& init) {
  std::vector<float> samples;
  for (uint64_t key = 0; key < 20'000; ++key) {
    for (const float value : Row(init, 12345, key, 10)) samples.push_back(value);
  }
  return samples;
}

// 1.95 is exceeded by one true sample in a thousand; the seed is fixed.
TEST(InitialiserTest, UniformIsUniform) {
  EXPECT_LT(Distance(Sample(Uniform{-2, 6}), [](double x) { return (x + 2) / 8; }), 1.95);
}

TEST(InitialiserTest, NormalIsNormal) {
  const std::vector<float> samples = Sample(Normal{3, 0.5f});
  EXPECT_LT(Distance(samples, [](double x) { return 0.5 * std::erfc(-(x - 3) / 0.5 / std::sqrt(2.0)); }),
            1.95);
  double sum = 0, squares = 0, fourth = 0;
  for (const float x : samples) {
    const double z = (x - 3) / 0.5;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  const double n = static_cast<double>(samples.size());
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96 / n));
}

TEST(InitialiserTest, NeighboursAreUncorrelated) {
  double columns = 0, keys = 0;
  constexpr int kRows = 20'000;
  std::vector<float> before = Row(Normal{}, 8, 0, 2);
  for (uint64_t key = 1; key <= kRows; ++key) {
    const std::vector<float> row = Row(Normal{}, 8, key, 2);
    columns += row[0] * row[1];
    keys += row[0] * before[0];
    before = row;
  }
  EXPECT_NEAR(columns / kRows, 0, 4 / std::sqrt(kRows));
  EXPECT_NEAR(keys / kRows, 0, 4 / std::sqrt(kRows));
}

}  // namespace
}  // namespace paceline::table
