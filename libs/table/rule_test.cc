#include "libs/table/rule.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/table/about.h"
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

constexpr size_t kPlanesMax = 5;

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
    std::vector<float> block(kPlanesMax * stride + 1);
    std::vector<ReferenceValue> reference(count);
    for (size_t i = 0; i < count; ++i) block[i] = reference[i].w = RandomGradient(random);
    kernel.InitSlots(block.data(), stride, count);
    for (ReferenceValue& value : reference)
      value.slots[0] = kernel.floats_per_value() > 1 ? block[stride] : 0;
    for (int step = 0; step < 30; ++step) {
      std::string gradients(count * sizeof(float) + 1, '\0');
      for (size_t i = 0; i < count; ++i) {
        const float g = RandomGradient(random);
        std::memcpy(gradients.data() + 1 + i * sizeof(float), &g, sizeof(g));
        std::visit([&](const auto& rule) { reference[i].Apply(rule, g); }, GetParam());
      }
      kernel.Apply(block.data(), stride, gradients.data() + 1, count);
      for (size_t i = 0; i < count; ++i) {
        std::vector<float> state = {reference[i].w};
        state.insert(state.end(), reference[i].slots.begin(), reference[i].slots.end());
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
  std::vector<float> block(kPlanesMax * kStride, 7);
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
  std::vector<float> row = {w, 0, 0, 0, 0};
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

// Polyak's heavy ball: x(t+1) = x(t) - lr * g(t) + momentum * (x(t) - x(t-1)).
TEST(RuleFormulaTest, MomentumAsPublished) {
  const std::vector<float> gradients = SomeGradients();
  double before = 0.5, x = 0.5;
  for (const float g : gradients) {
    const double next = x - 0.01 * g + 0.9 * (x - before);
    before = x;
    x = next;
  }
  EXPECT_NEAR(RunKernel(Momentum{.lr = 0.01f, .momentum = 0.9f}, gradients, 0.5f)[0], x, 1e-5);
}

// Sutskever et al.: v(t+1) = mu * v(t) - lr * g(theta(t) + mu * v(t)), theta(t+1) = theta(t) + v(t+1). The
// gradients that are given are those at theta + mu * v.
TEST(RuleFormulaTest, NesterovAsPublished) {
  const std::vector<float> gradients = SomeGradients();
  double theta = 0.5, v = 0;
  for (const float g : gradients) {
    v = 0.9 * v - 0.01 * g;
    theta += v;
  }
  EXPECT_NEAR(RunKernel(Nesterov{.lr = 0.01f, .momentum = 0.9f}, gradients, 0.5f)[0], theta + 0.9 * v, 1e-5);
}

TEST(RuleFormulaTest, RmsPropAsPublished) {
  const std::vector<float> gradients = SomeGradients();
  double x = 0.5, square = 0;
  for (const float g : gradients) {
    square = 0.9 * square + 0.1 * g * g;
    x -= 0.01 * g / (std::sqrt(square) + 1e-6);
  }
  EXPECT_NEAR(RunKernel(RmsProp{.lr = 0.01f, .decay = 0.9f, .epsilon = 1e-6f}, gradients, 0.5f)[0], x, 1e-4);
}

// Kingma and Ba, algorithm 1, with powers of the betas.
TEST(RuleFormulaTest, AdamAsPublished) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
  double x = 0.5, m = 0, v = 0;
  std::vector<float> so_far;
  for (const float g : SomeGradients()) {
    so_far.push_back(g);
    const auto t = static_cast<double>(so_far.size());
    m = kBeta1 * m + (1 - kBeta1) * g;
    v = kBeta2 * v + (1 - kBeta2) * g * g;
    x -= 0.01 * (m / (1 - std::pow(kBeta1, t))) / (std::sqrt(v / (1 - std::pow(kBeta2, t))) + 1e-8);
    const std::vector<float> row = RunKernel(Adam{.lr = 0.01f}, so_far, 0.5f);
    ASSERT_NEAR(row[0], x, 1e-4) << t;
    ASSERT_NEAR(row[3], 1 - std::pow(kBeta1, t), 1e-5) << t;
    ASSERT_NEAR(row[4], 1 - std::pow(kBeta2, t), 1e-5) << t;
  }
}

// After very many steps the sums of the weights are 1, but for rounding, and the steps those of the means.
TEST(RuleFormulaTest, AdamGoesOnForLong) {
  const std::vector<float> row = RunKernel(Adam{.lr = 1e-6f}, std::vector<float>(200'000, 0.5f), 0);
  EXPECT_NEAR(row[3], 1, 1e-5);
  EXPECT_NEAR(row[4], 1, 1e-4);
  EXPECT_NEAR(row[0], -0.2, 1e-3);
}

// Duchi and Singer: w is what minimises (w - moved)^2 / 2 + lr * (l1 * |w| + l2 / 2 * w^2).
TEST(RuleFormulaTest, ProximalSgdMinimisesWhatItSays) {
  constexpr double kLr = 0.1, kL1 = 2, kL2 = 0.5;
  int zeros = 0;
  for (const float g : SomeGradients()) {
    const float before = 0.25f;
    const double moved = before - kLr * g;
    const auto objective = [&](double w) {
      return (w - moved) * (w - moved) / 2 + kLr * (kL1 * std::abs(w) + kL2 / 2 * w * w);
    };
    const double w = RunKernel(ProximalSgd{.lr = kLr, .l1 = kL1, .l2 = kL2}, {g}, before)[0];
    for (const double other : {w - 1e-3, w + 1e-3, 0.0})
      EXPECT_LE(objective(w), objective(other) + 1e-9) << g;
    zeros += w == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, 200);
}

// The built-in rule and docs/rules.md's text of it give the same bits.
TEST(RuleFormulaTest, ExpressionsOfBuiltInRulesGiveTheSameBits) {
  const std::pair<Rule, Expression> pairs[] = {
      {Sgd{.lr = 0.25f}, {.params = {{"lr", 0.25f}}, .code = "w = w - lr*g"}},
      {Adagrad{.lr = 0.1f, .epsilon = 1e-6f, .initial_accumulator = 0.5f},
       {.slots = {{"n", 0.5f}},
        .params = {{"lr", 0.1f}, {"eps", 1e-6f}},
        .code = "n = n + g*g; w = w - lr*g / (sqrt(n) + eps)"}},
      {FtrlProximal{.alpha = 0.3f, .beta = 0.7f, .l1 = 0.4f, .l2 = 0.01f},
       {.slots = {"n", "z"},
        .params = {{"alpha", 0.3f}, {"beta", 0.7f}, {"l1", 0.4f}, {"l2", 0.01f}},
        .code = "m = n + g*g; sigma = (sqrt(m) - sqrt(n)) / alpha; z = (z + g) - sigma*w; n = m;"
                "w = select(abs(z) <= l1, 0,"
                "           -(z - select(z < 0, -l1, l1)) / ((beta + sqrt(n)) / alpha + l2))"}},
      {Adam{.lr = 0.1f, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f},
       {.slots = {"m", "v", "s", "r"},
        .params = {{"lr", 0.1f}, {"b1", 0.8f}, {"b2", 0.95f}, {"eps", 1e-6f}},
        .code = "m = b1*m + (1 - b1)*g; v = b2*v + (1 - b2)*(g*g); s = b1*s + (1 - b1); r = b2*r + (1 - b2);"
                "w = w - lr*(m/s) / (sqrt(v/r) + eps)"}},
  };
  for (const auto& [built_in, written] : pairs) {
    std::vector<float> so_far;
    for (const float g : SomeGradients()) so_far.push_back(g);
    const auto state = [&](const Rule& rule) { return Bits(RunKernel(rule, so_far, 0.5f)); };
    EXPECT_EQ(state(built_in), state(written)) << NameOf(built_in);
  }
}

TEST(RuleKernelTest, OtherRatesKeepTheRule) {
  for (const Rule& rule : AllRules()) {
    Rule faster = rule;
    EachParameter(faster, [](const Parameter& parameter, float& value) {
      if (parameter.name == "lr" || parameter.name == "alpha") value *= 2;
    });
    ASSERT_TRUE(CheckRuleChange(rule, faster).ok()) << NameOf(rule);
    const float g = 0.5f;
    std::vector<float> changed(kPlanesMax, 0.25f);
    std::vector<float> anew = changed;
    RuleKernel(rule).WithRates(faster).Apply(changed.data(), 1, &g, 1);
    RuleKernel(faster).Apply(anew.data(), 1, &g, 1);
    EXPECT_EQ(Bits(changed), Bits(anew)) << NameOf(rule);
  }
}

TEST(RuleFormulaTest, AGradientOfZeroChangesNoWeight) {
  const std::vector<float> zeros(3, 0.0f);
  EXPECT_EQ(RunKernel(Add{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Sgd{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Adagrad{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Momentum{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Nesterov{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(RmsProp{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Adam{}, zeros, 2)[0], 2);
  EXPECT_EQ(RunKernel(Assign{}, zeros, 2)[0], 0);
}

TEST(RuleFormulaTest, NotANumberStaysInItsColumn) {
  const std::vector<float> gradients = {1, std::numeric_limits<float>::quiet_NaN(), 1, 1, 1};
  for (const Rule& rule : AllRules()) {
    std::vector<float> row(kPlanesMax * 5);
    const RuleKernel kernel(rule);
    kernel.InitSlots(row.data(), 5, 5);
    kernel.Apply(row.data(), 5, gradients.data(), 5);
    for (size_t i = 0; i < row.size(); ++i) {
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
