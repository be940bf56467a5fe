#include "tools/paceline/rates.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::tool {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

v1::Rule Parse(const std::string& text) {
  v1::Rule rule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &rule)) << text;
  return rule;
}

constexpr char kWritten[] =
    "expression { slots { name: 'n' } params { name: 'lr' value: 1 } params { name: 'eps' value: 2 } "
    "code: 'n = n + g*g; w = w - lr*g / (sqrt(n) + eps)' }";

TEST(RatesTest, ARuleIsShownWithAllItsRates) {
  EXPECT_EQ(RuleText(Parse("sgd { learning_rate: 0.05 }")), "sgd lr=0.05");
  EXPECT_EQ(RuleText(Parse("ftrl_proximal { alpha: 0.1 beta: 1 }")),
            "ftrl_proximal alpha=0.1 beta=1 l1=0 l2=0");
  EXPECT_EQ(RuleText(Parse("add {}")), "add");
  EXPECT_EQ(RuleText(v1::Rule()), "-");
  EXPECT_EQ(RuleText(Parse("adam { learning_rate: 0.5 beta1: 0.9 beta2: 0.75 epsilon: 1e-6 }")),
            "adam lr=0.5 beta1=0.9 beta2=0.75 epsilon=1e-06");
  EXPECT_EQ(RuleText(Parse(kWritten)), "expression lr=1 eps=2");
}

TEST(RatesTest, AnExpressionsParametersAreRates) {
  const v1::Rule rule = Parse(kWritten);
  const auto changed = WithRates(rule, {"eps=0.5"});
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(RuleText(*changed), "expression lr=1 eps=0.5");
  EXPECT_EQ(changed->expression().code(), rule.expression().code());
  EXPECT_EQ(RuleText(*WithRates(rule, {"learning_rate=3"})), "expression lr=3 eps=2");
  EXPECT_THAT(WithRates(rule, {"beta=1"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    HasSubstr("'beta': the rule expression has lr, eps")));
}

TEST(RatesTest, SettingSomeRatesKeepsTheOthers) {
  const auto changed =
      WithRates(Parse("ftrl_proximal { alpha: 0.1 beta: 1 l1: 3 }"), {"alpha=0.2", "l2=1e-3"});
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(RuleText(*changed), "ftrl_proximal alpha=0.2 beta=1 l1=3 l2=0.001");
  for (const char* name : {"lr=2", "learning_rate=2"}) {
    EXPECT_EQ(RuleText(*WithRates(Parse("sgd { learning_rate: 1 }"), {name})), "sgd lr=2");
  }
}

TEST(RatesTest, ARateThatTheRuleLacksIsNamed) {
  const v1::Rule rule = Parse("adagrad { learning_rate: 1 epsilon: 1 }");
  EXPECT_THAT(WithRates(rule, {"alpha=1"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("'alpha': the rule adagrad has lr, epsilon")));
  EXPECT_THAT(WithRates(Parse("add {}"), {"lr=1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("add has no rates")));
  for (const char* wrong : {"lr", "lr=", "lr=fast", "=1"}) {
    EXPECT_THAT(WithRates(rule, {wrong}), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  }
}

}  // namespace
}  // namespace paceline::tool
