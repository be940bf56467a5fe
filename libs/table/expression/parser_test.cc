#include "libs/table/expression/parser.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/table/expression/program.h"

namespace paceline::expression {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Check(absl::string_view code, std::vector<absl::string_view> slots = {"n"},
                   std::vector<absl::string_view> parameters = {"lr"}) {
  return Compile({.code = code, .slots = slots, .parameters = parameters}).status();
}

// `expression` with so many operations that add 1.
std::string Ones(int count) {
  std::string sum = "w";
  for (int i = 0; i < count; ++i) sum += "+1";
  return "w=" + sum;
}

TEST(ParserTest, TakesTheLanguage) {
  for (const char* good : {
           "w=g",
           "w = w - lr*g;",
           "  w\n=\n w - .5 * g\n;\n",
           "n = n + g*g; w = w - lr*g/(sqrt(n) + 1e-8)",
           "_a1 = abs(-g); w = min(_a1, max(w, 2))",
           "w = select(w < g, n, 1); n = w",
           "w = select(w <= g, 1, 2) + select(w > g, 1, 2) + select(w >= g, 1, 2)",
           "w = select(w == g, 1, 2) + select(w != g, 1, 2)",
           "w = --w; w = w - -g",
           "w = w - lr*g/step",
           "w = 3.4e38; w = 1.2e-38; w = 0; w = 1E+2; w = 1.",
       }) {
    EXPECT_THAT(Check(good), IsOk()) << good;
  }
  EXPECT_THAT(Check("w = g", {}, {}), IsOk());
}

TEST(ParserTest, StopsAtTheFirstErrorAndNamesItsPlace) {
  const struct {
    const char* code;
    const char* place;
    const char* what;
  } wrong[] = {
      {"", "never assigns w", "w = w - lr*g"},
      {"n = g", "never assigns w", "add one"},
      {"w", "line 1, character 2 (its end)", "lacks its '='"},
      {"w = ", "character 5 (its end)", "there is no value here"},
      {"w = w +", "character 8 (its end)", "there is no value here"},
      {"w == g", "character 4 (= g)", "lacks its '='"},
      {"w = w - m*g", "character 9 (m*g)", "'m' is not known; expected one of g, lr, n, w, step"},
      {"w = m; m = 1", "character 5 (m; m = 1)", "assign it first"},
      {"w = g;\n\n w = q", "line 3, character 6 (q)", "'q' is not known"},
      {"w = w g", "character 7 (g)", "expected an operator or ';'"},
      {"w = 2g", "character 5 (2g)", "no number"},
      {"w = 1..2", "character 5 (1..2)", "no number"},
      {"w = 1e", "character 5 (1e)", "no number"},
      {"w = 0x10", "character 5 (0x10)", "no number"},
      {"w = .", "character 5 (.)", "no number"},
      {"w = 1e39", "character 5 (1e39)", "an f32 cannot hold"},
      {"w = 1e-39", "character 5 (1e-39)", "an f32 cannot hold"},
      {"w = (w", "character 7 (its end)", "')' is missing"},
      {"w = w)", "character 6 ())", "does not end here"},
      {"w = sqrt w", "character 10 (w)", "'(' is missing"},
      {"w = min(w)", "character 10 ())", "',' is missing"},
      {"w = sqrt(w, g)", "character 11 (, g))", "')' is missing"},
      {"w = select(w, g, 1)", "character 13 (, g, 1))", "lacks its comparison"},
      {"w = w < g", "character 7 (< g)", "does not end here"},
      {"g = w", "character 1 (g = w)", "'g' cannot be assigned"},
      {"lr = w", "character 1", "'lr' cannot be assigned"},
      {"step = 1; w = g", "character 1", "'step' cannot be assigned"},
      {"min = w", "character 1", "'min' cannot be assigned"},
      {"; w = g", "character 1 (; w = g)", "a statement begins with a name"},
      {"w = g;;", "character 7 (;)", "a statement begins with a name"},
      {"w = pow(w, 2)", "character 5", "'pow' is not known"},
      {"w\t= g", "character 2 (\\x09= g)", "lacks its '='"},
      {"w = \xc3\xb6", "character 5", "there is no value here"},
  };
  for (const auto& w : wrong) {
    EXPECT_THAT(Check(w.code), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("rule.code"), HasSubstr(w.place), HasSubstr(w.what),
                                              HasSubstr("; expected "))))
        << w.code;
  }
}

TEST(ParserTest, DeclaredNamesAreCheckedByField) {
  const std::string longest(kNameBytesMax, 'a');
  EXPECT_THAT(Check("w=g", {longest}), IsOk());
  for (const char* name : {"", "1a", "a b", "ö", "w", "g", "step", "sqrt", "select"}) {
    EXPECT_THAT(Check("w=g", {name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule.slots: '")));
    EXPECT_THAT(Check("w=g", {}, {name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule.params: '")));
  }
  EXPECT_THAT(Check("w=g", {longest + "a"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Check("w=g", {"n"}, {"n"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'n' is there twice")));
  EXPECT_THAT(Check(longest + "a = 1; w = g"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the name is too long")));
}

TEST(ParserTest, EverythingHasABound) {
  EXPECT_THAT(Check(Ones(kOperationsMax)), IsOk());
  EXPECT_THAT(
      Check(Ones(kOperationsMax + 1)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("this is operation 257; expected at most 256: compute some of it in the workers")));
  const std::string spaces(kCodeBytesMax - 3, ' ');
  EXPECT_THAT(Check("w=g" + spaces), IsOk());
  EXPECT_THAT(Check("w=g " + spaces), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("has 4097 bytes; expected at most 4096")));
  const std::vector<absl::string_view> eight = {"a", "b", "c", "d", "e", "f", "h", "i"};
  EXPECT_THAT(Check("w=g", eight), IsOk());
  EXPECT_THAT(Check("w=g+step", eight),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("and rule.code has step, a slot too")));
  std::vector<std::string> texts;
  for (size_t i = 0; i <= kParametersMax; ++i) texts.push_back("p" + std::to_string(i));
  const std::vector<absl::string_view> many(texts.begin(), texts.end());
  EXPECT_THAT(Check("w=g", {}, many), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("17 names")));
}

TEST(ParserTest, DepthIsBounded) {
  const auto nested = [](size_t depth, const std::string& open, const std::string& close) {
    std::string code = "w=";
    for (size_t i = 0; i < depth; ++i) code += open;
    code += "w";
    for (size_t i = 0; i < depth; ++i) code += close;
    return code;
  };
  EXPECT_THAT(Check(nested(kDepthMax - 1, "(", ")")), IsOk());
  EXPECT_THAT(Check(nested(kDepthMax, "(", ")")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too much is nested")));
  for (const char* open : {"(", "-", "sqrt(", "min(", "min(1,", "select(w<", "select(1<2,w,", "min min "}) {
    EXPECT_THAT(Check(nested(500, open, ")")), StatusIs(absl::StatusCode::kInvalidArgument)) << open;
  }
}

// All of the numbers are needed until the last one has been made.
TEST(ParserTest, WhatIsHeldAtATimeIsBounded) {
  const auto holding = [](int count) {
    std::string code;
    std::string sum = "w = w";
    for (int i = 0; i < count; ++i) {
      const std::string name = "a" + std::to_string(i);
      code += name + " = " + (i == 0 ? "w" : "a" + std::to_string(i - 1)) + " * g;";
      sum += "+" + name;
    }
    return code + sum;
  };
  EXPECT_THAT(Check(holding(60), {}, {}), IsOk());
  EXPECT_THAT(Check(holding(64), {}, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("numbers at a time; expected at most 64")));
}

TEST(ParserTest, StepIsFoundWhereItIsAWord) {
  EXPECT_TRUE(CountsSteps("w=g/step"));
  EXPECT_TRUE(CountsSteps("step"));
  for (const char* without : {"", "w=g", "steps = 1", "astep=1", "step1", "_step"}) {
    EXPECT_FALSE(CountsSteps(without)) << without;
  }
}

TEST(ParserTest, WhatIsComputedTwiceOrForNothingIsNotRun) {
  const auto length = [](absl::string_view code) {
    const std::vector<absl::string_view> lr = {"lr"};
    return Compile({.code = code, .slots = {}, .parameters = lr})->code.size();
  };
  EXPECT_EQ(length("w = w - lr*g"), 2u);
  EXPECT_EQ(length("w = w*g + w*g"), 2u);
  EXPECT_EQ(length("a = sqrt(w); w = w + g"), 1u);
  EXPECT_EQ(length("w = w + g*(1 - lr/2)"), 2u) << "the parameter's part is computed beforehand";
  EXPECT_EQ(length("w = 0"), 0u);
}

}  // namespace
}  // namespace paceline::expression
