#include "libs/table/rule.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

float RandomGradient(world::Random& random) {
  const double u = world::UnitInterval(random) - 0.5;
  switch (world::Uniform(random, 8)) {
    case 0:
      return 0;
    case 1:
      return static_cast<float>(u * 1e-30);
    case 2:
      return static_cast<float>(u * 1e10);
    default:
      return static_cast<float>(u);
  }
}

class RuleTest : public ::testing::TestWithParam<Rule> {};

INSTANTIATE_TEST_SUITE_P(All, RuleTest, ::testing::ValuesIn(AllRules()),
                         [](const auto& instance) { return NameOf(instance.param); });

// All lengths, so that vector bodies and their remainders are run; rows of a page and planes of a block;
// gradients at odd addresses.
TEST_P(RuleTest, EqualsOneValueAtATimeBitForBit) {
  world::SplitMix64 random(1);
  const RuleKernel kernel(GetParam());
  for (size_t count = 1; count <= 40; ++count) {
    const size_t stride = count + world::Uniform(random, 3);
    std::vector<float> block(3 * stride + 1);
    std::vector<ReferenceValue> reference(count);
    for (size_t i = 0; i < count; ++i) block[i] = reference[i].w = RandomGradient(random);
    kernel.InitSlots(block.data(), stride, count);
    for (ReferenceValue& value : reference) value.n = kernel.floats_per_value() > 1 ? block[stride] : 0;
    for (int step = 0; step < 30; ++step) {
      std::string gradients(count * sizeof(float) + 1, '\0');
      for (size_t i = 0; i < count; ++i) {
        const float g = RandomGradient(random);
        std::memcpy(gradients.data() + 1 + i * sizeof(float), &g, sizeof(g));
        std::visit([&](const auto& rule) { reference[i].Apply(rule, g); }, GetParam());
      }
      kernel.Apply(block.data(), stride, gradients.data() + 1, count);
      for (size_t i = 0; i < count; ++i) {
        const std::vector<float> state = {reference[i].w, reference[i].n, reference[i].z};
        for (uint32_t plane = 0; plane < kernel.floats_per_value(); ++plane) {
          ASSERT_EQ(Bits({block[plane * stride + i]}), Bits({state[plane]}))
              << "count " << count << " step " << step << " plane " << plane;
        }
      }
    }
  }
}

TEST_P(RuleTest, LeavesNeighboursAlone) {
  const RuleKernel kernel(GetParam());
  constexpr size_t kStride = 9;
  std::vector<float> block(3 * kStride, 7);
  const std::vector<float> gradients(5, 1);
  kernel.InitSlots(block.data() + 2, kStride, 5);
  kernel.Apply(block.data() + 2, kStride, gradients.data(), 5);
  for (size_t i = 0; i < block.size(); ++i) {
    const size_t column = i % kStride;
    const bool mine = column >= 2 && column < 7 && i / kStride < kernel.floats_per_value();
    EXPECT_TRUE(mine || block[i] == 7) << i;
  }
}

TEST_P(RuleTest, NoValuesChangeNothing) {
  RuleKernel(GetParam()).Apply(nullptr, 0, nullptr, 0);
}

// Trains one weight of each rule's own paper in double precision, from the formulas as published, and by the
// kernel in single precision.
std::vector<float> RunKernel(const Rule& rule, const std::vector<float>& gradients, float w) {
  std::vector<float> row = {w, 0, 0};
  const RuleKernel kernel(rule);
  kernel.InitSlots(row.data(), 1, 1);
  for (const float g : gradients) kernel.Apply(row.data(), 1, &g, 1);
  return row;
}

std::vector<float> SomeGradients() {
  world::SplitMix64 random(2);
  std::vector<float> gradients;
  for (int i = 0; i < 200; ++i) gradients.push_back(static_cast<float>(world::UnitInterval(random) - 0.45));
  return gradients;
}

TEST(RuleFormulaTest, SgdIsMinusLearningRateTimesTheSum) {
  double sum = 0;
  for (const float g : SomeGradients()) sum += g;
  EXPECT_NEAR(RunKernel(Sgd{.lr = 0.1f}, SomeGradients(), 1)[0], 1 - 0.1 * sum, 1e-5);
}

// Duchi et al.: x(t+1) = x(t) - lr * g(t) / (delta + sqrt(sum over s <= t of g(s)^2)).
TEST(RuleFormulaTest, AdagradAsPublished) {
  const std::vector<float> gradients = SomeGradients();
  double x = 0.5;
  for (size_t t = 0; t < gradients.size(); ++t) {
    double squares = 0;
    for (size_t s = 0; s <= t; ++s) squares += double{gradients[s]} * gradients[s];
    x -= 0.1 * gradients[t] / (1e-6 + std::sqrt(squares));
  }
  EXPECT_NEAR(RunKernel(Adagrad{.lr = 0.1f, .epsilon = 1e-6f}, gradients, 0.5f)[0], x, 1e-5);
}

// McMahan et al. compute w from (z, n) when an example is read, then update z and n.
TEST(RuleFormulaTest, FtrlProximalAsPublished) {
  constexpr double kAlpha = 0.3, kBeta = 0.7, kL1 = 0.4, kL2 = 0.01;
  double z = 0, n = 0;
  const auto weight = [&] {
    if (std::abs(z) <= kL1) return 0.0;
    return -(z - (z < 0 ? -kL1 : kL1)) / ((kBeta + std::sqrt(n)) / kAlpha + kL2);
  };
  const FtrlProximal rule = {.alpha = kAlpha, .beta = kBeta, .l1 = kL1, .l2 = kL2};
  std::vector<float> so_far;
  int zeros = 0;
  for (const float g : SomeGradients()) {
    const double w = weight();
    const double sigma = (std::sqrt(n + double{g} * g) - std::sqrt(n)) / kAlpha;
    z += g - sigma * w;
    n += double{g} * g;
    so_far.push_back(g);
    EXPECT_NEAR(RunKernel(rule, so_far, 0)[0], weight(), 1e-5);
    zeros += weight() == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, 200);
}

TEST(RuleFormulaTest, AGradientOfZeroChangesNoWeight) {
  const std::vector<float> zeros(3, 0.0f);
  EXPECT_EQ(RunKernel(Add{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Sgd{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Adagrad{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Assign{}, zeros, 2)[0], 0);
}

TEST(RuleFormulaTest, NotANumberStaysInItsColumn) {
  const std::vector<float> gradients = {1, std::numeric_limits<float>::quiet_NaN(), 1, 1, 1};
  for (const Rule& rule : AllRules()) {
    std::vector<float> row(15);
    const RuleKernel kernel(rule);
    kernel.InitSlots(row.data(), 5, 5);
    kernel.Apply(row.data(), 5, gradients.data(), 5);
    for (size_t i = 0; i < 15; ++i) {
      EXPECT_TRUE(i % 5 == 1 || !std::isnan(row[i])) << NameOf(rule) << " " << i;
    }
    EXPECT_TRUE(std::isnan(row[1])) << NameOf(rule);
  }
}

// As docs/rules.md says: shards check pushed values, not the results.
TEST(RuleFormulaTest, FiniteUpdatesMayGiveInfiniteResults) {
  constexpr float kLarge = 3e38f;
  constexpr float kRootIsTooLarge = 2e19f;  // its square is
  EXPECT_EQ(RunKernel(Add{}, {kLarge, kLarge}, 0)[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(RunKernel(Sgd{.lr = 2}, {kLarge}, 0)[0], -std::numeric_limits<float>::infinity());
  // The slot is infinite, each later step 0: the value stays where it is.
  EXPECT_EQ(RunKernel(Adagrad{}, {kRootIsTooLarge, 1, 1}, 2)[0], 2);
  EXPECT_TRUE(std::isnan(RunKernel(FtrlProximal{}, {kRootIsTooLarge}, 0)[0]));
}

TEST(RuleKernelTest, OnlyUnderAssignTheLastUpdateWins) {
  for (const Rule& rule : AllRules()) {
    EXPECT_EQ(RuleKernel(rule).last_wins(), std::holds_alternative<Assign>(rule));
  }
}

}  // namespace
}  // namespace paceline::table
