#include "libs/table/schema.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/table/test_util.h"

namespace paceline::table {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SchemaTest, SlotsFollowTheRule) {
  EXPECT_EQ(SlotsPerRow(Assign{}, 16), 0u);
  EXPECT_EQ(SlotsPerRow(Add{}, 16), 0u);
  EXPECT_EQ(SlotsPerRow(Sgd{}, 16), 0u);
  EXPECT_EQ(SlotsPerRow(Adagrad{}, 16), 16u);
  EXPECT_EQ(SlotsPerRow(FtrlProximal{}, 16), 32u);
  EXPECT_EQ(FloatsPerRow({.dim = 5, .rule = FtrlProximal{}}), 15u);
  EXPECT_EQ(SlotsPerRow(Adam{}, 16), 64u);
  EXPECT_EQ(SlotsPerRow(SomeExpression(), 16), 32u) << "one is named, the other counts steps";
  EXPECT_EQ(SlotNamesOf(Sgd{}), std::vector<std::string>());
  EXPECT_EQ(SlotNamesOf(FtrlProximal{}), (std::vector<std::string>{"n", "z"}));
  EXPECT_EQ(SlotNamesOf(SomeExpression()), (std::vector<std::string>{"n", "step"}));
  for (const Rule& rule : AllRules()) EXPECT_EQ(SlotNamesOf(rule).size(), SlotsPerValue(rule));
}

TEST(SchemaTest, LaterRulesBelongToALaterLevel) {
  for (const Rule& rule : AllRules()) {
    EXPECT_EQ(LevelOf(rule), rule.index() < 5 ? 1u : 2u) << NameOfRule(rule);
  }
}

TEST(SchemaTest, OnlySumsAreAdditive) {
  for (const Rule& rule : AllRules()) {
    EXPECT_EQ(IsAdditive(rule), std::holds_alternative<Add>(rule) || std::holds_alternative<Sgd>(rule));
  }
}

// It is part of what members compare, and of what is stored.
TEST(SchemaTest, HashesNeverChange) {
  EXPECT_EQ(HashOf(Assign{}), 0u);
  EXPECT_EQ(HashOf(Sgd{.lr = 0.25f}), 11217161012576044893u);
  EXPECT_EQ(HashOf(Adagrad{.lr = 0.5f, .epsilon = 2, .initial_accumulator = 3}), 11826468479795169688u);
  EXPECT_EQ(HashOf(FtrlProximal{.alpha = 0.5f, .beta = 2, .l1 = 3, .l2 = 4}), 4842182350000619730u);
}

TEST(SchemaTest, HashesDifferWhereExpressionsDo) {
  const Expression one = SomeExpression();
  Expression code = one, slot = one, rate = one;
  code.code += " ";
  slot.slots[0].value = 1;
  rate.params[0].value = 1;
  EXPECT_EQ(HashOf(one), HashOf(SomeExpression()));
  for (const Expression& other : {code, slot, rate}) EXPECT_NE(HashOf(one), HashOf(other));
}

TEST(SchemaTest, RatesMayChangeAndNothingElse) {
  EXPECT_THAT(CheckRuleChange(Sgd{1}, Sgd{2}), IsOk());
  EXPECT_THAT(CheckRuleChange(Adagrad{.lr = 1}, Adagrad{.lr = 2, .epsilon = 1}), IsOk());
  EXPECT_THAT(
      CheckRuleChange(Sgd{1}, Add{}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule is add; expected rates for sgd(lr 1)")));
  EXPECT_THAT(CheckRuleChange(Adagrad{}, Adagrad{.initial_accumulator = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rule.initial_accumulator is 1; expected 0: it sets new rows' slots")));
  const Expression one = SomeExpression();
  Expression rate = one, code = one, slot = one, names = one, fewer = one;
  rate.params[0].value = 7;
  code.code += ";";
  slot.slots[0].value = 7;
  names.params[0].name = "rate";
  fewer.params.pop_back();
  EXPECT_THAT(CheckRuleChange(one, rate), IsOk());
  for (const Expression& other : {code, slot, names, fewer}) {
    EXPECT_THAT(CheckRuleChange(one, other),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("; expected rates for expression(\"n = n + g*g")));
  }
}

TEST(SchemaTest, GoodOnesAreValid) {
  EXPECT_THAT(Validate({}), IsOk());
  for (const Rule& rule : AllRules())
    EXPECT_THAT(Validate({.dim = 16, .rule = rule}), IsOk()) << NameOf(rule);
  EXPECT_THAT(Validate({.kind = Kind::kRanged, .rows = 1}), IsOk());
  EXPECT_THAT(Validate({.kind = Kind::kRanged, .rows = std::numeric_limits<uint64_t>::max()}), IsOk());
  EXPECT_THAT(Validate({.aggregated = true, .mean = true}), IsOk());
  EXPECT_THAT(Validate({.init = Uniform{.low = 2, .high = 2}}), IsOk());
  EXPECT_THAT(Validate({.rule = Adagrad{.epsilon = 0, .initial_accumulator = 0.1f}}), IsOk());
}

TEST(SchemaTest, ARowMustFitAPage) {
  EXPECT_THAT(Validate({.dim = 16382}), IsOk());
  EXPECT_THAT(Validate({.dim = 16383}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("dim is 16383"), HasSubstr("at most 16382"))));
  EXPECT_THAT(Validate({.dim = 8191, .rule = Adagrad{}}), IsOk());
  EXPECT_THAT(Validate({.dim = 8192, .rule = Adagrad{}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Validate({.dim = 5460, .rule = FtrlProximal{}}), IsOk());
  EXPECT_THAT(Validate({.dim = 5461, .rule = FtrlProximal{}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Validate({.dim = std::numeric_limits<uint32_t>::max(), .rule = FtrlProximal{}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

struct BadSchema {
  Schema schema;
  const char* field;
};

TEST(SchemaTest, BadOnesAreRefusedByField) {
  const BadSchema bad[] = {
      {{.kind = static_cast<Kind>(7)}, "kind is 7"},
      {{.dim = 0}, "dim is 0"},
      {{.rows = 3}, "rows is 3"},
      {{.kind = Kind::kRanged}, "rows is 0"},
      {{.init = Constant{kInf}}, "init.value is inf"},
      {{.init = Uniform{kNan, 1}}, "init.low is nan"},
      {{.init = Uniform{0, kInf}}, "init.high is inf"},
      {{.init = Uniform{1, -1}}, "init.low is 1"},
      {{.init = Normal{kNan, 1}}, "init.mean is nan"},
      {{.init = Normal{0, -1}}, "init.stddev is -1"},
      {{.rule = Sgd{0}}, "rule.lr is 0"},
      {{.rule = Sgd{-0.5f}}, "rule.lr is -0.5"},
      {{.rule = Sgd{kNan}}, "rule.lr is nan"},
      {{.rule = Adagrad{.lr = -1}}, "rule.lr is -1"},
      {{.rule = Adagrad{.epsilon = -1}}, "rule.epsilon is -1"},
      {{.rule = Adagrad{.initial_accumulator = kInf}}, "rule.initial_accumulator is inf"},
      {{.rule = Adagrad{.epsilon = 0, .initial_accumulator = 0}}, "rule.epsilon is 0"},
      {{.rule = FtrlProximal{.alpha = 0}}, "rule.alpha is 0"},
      {{.rule = FtrlProximal{.beta = -1}}, "rule.beta is -1"},
      {{.rule = FtrlProximal{.l1 = -1}}, "rule.l1 is -1"},
      {{.rule = FtrlProximal{.l2 = kNan}}, "rule.l2 is nan"},
      {{.rule = FtrlProximal{.beta = 0, .l2 = 0}}, "rule.beta is 0"},
      {{.rule = Momentum{.lr = 0}}, "rule.lr is 0"},
      {{.rule = Momentum{.momentum = 1}}, "rule.momentum is 1"},
      {{.rule = Nesterov{.momentum = -0.5f}}, "rule.momentum is -0.5"},
      {{.rule = RmsProp{.decay = 1}}, "rule.decay is 1"},
      {{.rule = RmsProp{.epsilon = 0}}, "rule.epsilon is 0"},
      {{.rule = Adam{.beta1 = 1}}, "rule.beta1 is 1"},
      {{.rule = Adam{.beta2 = kNan}}, "rule.beta2 is nan"},
      {{.rule = Adam{.epsilon = 0}}, "rule.epsilon is 0"},
      {{.rule = ProximalSgd{.l1 = -1}}, "rule.l1 is -1"},
      {{.rule = Expression{}}, "rule.code never assigns w"},
      {{.rule = Expression{.code = "w = m"}}, "rule.code, line 1, character 5 (m): 'm' is not known"},
      {{.rule = Expression{.slots = {"w"}, .code = "w = g"}}, "rule.slots: 'w'"},
      {{.rule = Expression{.slots = {{"n", kInf}}, .code = "w = g"}}, "the first value of 'n', is inf"},
      {{.rule = Expression{.params = {{"lr", kNan}}, .code = "w = g"}}, "rule.lr is nan"},
      {{.mean = true}, "mean is true"},
  };
  for (const BadSchema& b : bad) {
    EXPECT_THAT(Validate(b.schema), StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr(b.field), HasSubstr("; expected "))));
  }
}

TEST(SchemaTest, FirstDifferenceNamesFieldAndBothValues) {
  const Schema base = {.dim = 8, .rule = Adagrad{.lr = 0.1f}};
  EXPECT_EQ(FirstDifference(base, base), std::nullopt);
  const auto differing = [&base](auto change) {
    Schema other = base;
    change(other);
    EXPECT_EQ(other == base, false);
    return FirstDifference(base, other).value_or("none");
  };
  EXPECT_EQ(differing([](Schema& s) { s.kind = Kind::kRanged; }), "kind: sparse against ranged");
  EXPECT_EQ(differing([](Schema& s) { s.dim = 16; }), "dim: 8 against 16");
  EXPECT_EQ(differing([](Schema& s) { s.rows = 5; }), "rows: 0 against 5");
  EXPECT_EQ(differing([](Schema& s) {
              s.init = Normal{0, 0.5f};
            }),
            "init: zeros against normal(mean 0, stddev 0.5)");
  EXPECT_EQ(differing([](Schema& s) { s.rule = Adagrad{.lr = 0.10000001f}; }),
            "rule: adagrad(lr 0.100000001, epsilon 9.99999994e-09, initial_accumulator 0) against "
            "adagrad(lr 0.100000009, epsilon 9.99999994e-09, initial_accumulator 0)");
  EXPECT_EQ(differing([](Schema& s) { s.aggregated = true; }), "aggregated: false against true");
  EXPECT_EQ(differing([](Schema& s) { s.mean = true; }), "mean: false against true");
  EXPECT_EQ(differing([](Schema& s) { s.accept_non_finite = true; }),
            "accept_non_finite: false against true");
  EXPECT_EQ(differing([](Schema& s) { s.seed = 9; }), "seed: 0 against 9");
}

TEST(SchemaTest, EveryRuleAndInitialiserHasItsWords) {
  const auto against_add = [](const Rule& rule) {
    return FirstDifference(Schema{}, Schema{.rule = rule}).value_or("none");
  };
  EXPECT_EQ(against_add(Assign{}), "rule: add against assign");
  EXPECT_EQ(against_add(Add{}), "none");
  EXPECT_EQ(against_add(Sgd{0.5f}), "rule: add against sgd(lr 0.5)");
  EXPECT_EQ(against_add(FtrlProximal{.alpha = 0.5f, .beta = 2, .l1 = 3, .l2 = 4}),
            "rule: add against ftrl_proximal(alpha 0.5, beta 2, l1 3, l2 4)");
  EXPECT_EQ(against_add(Adam{0.5f, 0.25f, 0.75f, 1}),
            "rule: add against adam(lr 0.5, beta1 0.25, beta2 0.75, epsilon 1)");
  EXPECT_EQ(
      against_add(Expression{.slots = {"n", {"m", 2}}, .params = {{"lr", 0.5f}}, .code = "n = g;\nw = n"}),
      "rule: add against expression(\"n = g; w = n\", slot n 0, slot m 2, lr 0.5)");
  const auto against_zeros = [](const Initialiser& init) {
    return FirstDifference(Schema{}, Schema{.init = init}).value_or("none");
  };
  EXPECT_EQ(against_zeros(Zeros{}), "none");
  EXPECT_EQ(against_zeros(Constant{0}), "init: zeros against constant(0)");
  EXPECT_EQ(against_zeros(Uniform{-1, 1}), "init: zeros against uniform(low -1, high 1)");
}

}  // namespace
}  // namespace paceline::table
