#include "libs/table/expression/evaluator.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::expression {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Evaluator Make(absl::string_view code, std::vector<absl::string_view> slots = {},
               std::vector<absl::string_view> parameters = {}, const std::vector<float>& values = {}) {
  absl::StatusOr<Program> program = Compile({.code = code, .slots = slots, .parameters = parameters});
  EXPECT_TRUE(program.ok()) << program.status();
  return Evaluator(std::make_shared<const Program>(*std::move(program)), values);
}

// The value after one update of `w` by `g`.
float Once(absl::string_view code, float w, float g) {
  Make(code).Apply(&w, 1, &g, 1);
  return w;
}

uint32_t Bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

TEST(EvaluatorTest, OperationsAreThoseOfTheField) {
  EXPECT_EQ(Once("w = w + g", 3, 4), 7);
  EXPECT_EQ(Once("w = w - g", 3, 4), -1);
  EXPECT_EQ(Once("w = w * g", 3, 4), 12);
  EXPECT_EQ(Once("w = w / g", 3, 4), 0.75f);
  EXPECT_EQ(Once("w = sqrt(w)", 9, 0), 3);
  EXPECT_EQ(Once("w = abs(w)", -9, 0), 9);
  EXPECT_EQ(Once("w = -w", 9, 0), -9);
  EXPECT_EQ(Once("w = min(w, g)", 3, 4), 3);
  EXPECT_EQ(Once("w = max(w, g)", 3, 4), 4);
  const struct {
    const char* comparison;
    bool less, equal, more;
  } all[] = {{"<", true, false, false}, {"<=", true, true, false},  {">", false, false, true},
             {">=", false, true, true}, {"==", false, true, false}, {"!=", true, false, true}};
  for (const auto& c : all) {
    const std::string code = std::string("w = select(w ") + c.comparison + " g, 1, 0)";
    EXPECT_EQ(Once(code, 1, 2), c.less) << code;
    EXPECT_EQ(Once(code, 2, 2), c.equal) << code;
    EXPECT_EQ(Once(code, 3, 2), c.more) << code;
    EXPECT_EQ(Once(code, kNan, 2), std::string(c.comparison) == "!=") << code;
    EXPECT_EQ(Once(code, 2, kNan), std::string(c.comparison) == "!=") << code;
  }
}

TEST(EvaluatorTest, PrecedenceIsThatOfArithmetic) {
  EXPECT_EQ(Once("w = 1 + 2*3", 0, 0), 7);
  EXPECT_EQ(Once("w = (1 + 2)*3", 0, 0), 9);
  EXPECT_EQ(Once("w = 10 - 4 - 3", 0, 0), 3);
  EXPECT_EQ(Once("w = 24 / 4 / 3", 0, 0), 2);
  EXPECT_EQ(Once("w = 24 / 4 * 3", 0, 0), 18);
  EXPECT_EQ(Once("w = -w*g", 3, 4), -12);
  EXPECT_EQ(Once("w = 2 - -3", 0, 0), 5);
}

TEST(EvaluatorTest, WhatIsNotANumberFollowsTheRules) {
  EXPECT_EQ(Bits(Once("w = w - g", kInf, kInf)), 0x7fc00000u) << "x86 makes the one with a sign";
  EXPECT_EQ(Bits(Once("w = -(w / g)", 0, 0)), 0x7fc00000u);
  EXPECT_EQ(Bits(Once("w = g", 0, std::bit_cast<float>(0xffc12345u))), 0x7fc00000u);
  EXPECT_EQ(Bits(Once("w = 0/0", 0, 0)), 0x7fc00000u) << "the same for all rows";
  EXPECT_EQ(Once("w = 1 / w", 0, 0), kInf);
  EXPECT_EQ(Once("w = sqrt(w)", kInf, 0), kInf);
  EXPECT_TRUE(std::isnan(Once("w = sqrt(w)", -1, 0)));
  EXPECT_EQ(Once("w = min(w, g)", 1, kNan), 1) << "no comparison holds";
  EXPECT_TRUE(std::isnan(Once("w = min(w, g)", kNan, 1)));
  EXPECT_EQ(Once("w = max(w, g)", 1, kNan), 1);
  EXPECT_EQ(Bits(Once("w = min(w, g)", -0.0f, 0.0f)), Bits(-0.0f));
  EXPECT_EQ(Bits(Once("w = max(w, g)", -0.0f, 0.0f)), Bits(-0.0f));
  EXPECT_EQ(Bits(Once("w = -w", 0.0f, 0)), Bits(-0.0f));
  EXPECT_EQ(Bits(Once("w = abs(w)", -0.0f, 0)), 0u);
}

TEST(EvaluatorTest, StatementsSeeWhatWasAssignedBefore) {
  const Evaluator swap = Make("t = a; a = b; b = t; w = w + a", {"a", "b"});
  float row[] = {1, 10, 100};
  const float g = 0;
  swap.Apply(row, 1, &g, 1);
  EXPECT_EQ(row[0], 101);
  EXPECT_EQ(row[1], 100);
  EXPECT_EQ(row[2], 10);
}

TEST(EvaluatorTest, StepCountsTheUpdates) {
  const Evaluator mean = Make("w = w + (g - w) / step");
  float row[] = {0, 0};  // the value, and the slot that counts
  for (const float g : {3.0f, 5.0f, 10.0f}) mean.Apply(row, 1, &g, 1);
  EXPECT_EQ(row[0], 6);
  EXPECT_EQ(row[1], 3);
}

TEST(EvaluatorTest, ParametersCanBeOthers) {
  const Evaluator one = Make("w = w - lr*(2*lr)*g", {}, {"lr"}, {1});
  const Evaluator three = one.With(std::vector<float>{3});
  float w = 0;
  const float g = 1;
  one.Apply(&w, 1, &g, 1);
  EXPECT_EQ(w, -2);
  three.Apply(&w, 1, &g, 1);
  EXPECT_EQ(w, -20);
}

TEST(EvaluatorTest, NoValuesChangeNothing) {
  Make("w = g").Apply(nullptr, 0, nullptr, 0);
}

// -- Random programs, against one value and one operation at a time --

using Names = std::map<std::string, float>;

// An expression as a tree, which can say what it is worth and how it is written.
struct Tree {
  std::string what;  // a name, a number, an operator, a function or a comparison
  std::vector<Tree> of;
  float number = 0;

  float Worth(const Names& names) const {
    if (of.empty()) return names.contains(what) ? names.at(what) : number;
    const float a = of[0].Worth(names);
    const float b = of.size() > 1 ? of[1].Worth(names) : 0;
    if (what == "+") return a + b;
    if (what == "-" && of.size() > 1) return a - b;
    if (what == "*") return a * b;
    if (what == "/") return a / b;
    if (what == "-") return -a;
    if (what == "sqrt") return std::sqrt(a);
    if (what == "abs") return std::fabs(a);
    if (what == "min") return b < a ? b : a;
    if (what == "max") return a < b ? b : a;
    bool holds = false;
    if (what == "<") holds = a < b;
    if (what == "<=") holds = a <= b;
    if (what == ">") holds = a > b;
    if (what == ">=") holds = a >= b;
    if (what == "==") holds = a == b;
    if (what == "!=") holds = a != b;
    return holds ? of[2].Worth(names) : of[3].Worth(names);
  }

  // How tightly it holds together: sums, products, and what needs no parentheses.
  int Strength() const {
    if (what == "+" || (what == "-" && of.size() == 2)) return 1;
    return what == "*" || what == "/" ? 2 : 3;
  }
  std::string In(int strength) const { return Strength() < strength ? "(" + Text() + ")" : Text(); }
  std::string Text() const {
    if (of.empty()) return what;
    const int strength = Strength();
    if (strength < 3) return of[0].In(strength) + " " + what + " " + of[1].In(strength + 1);
    if (what == "-") return "-" + of[0].In(3);
    if (of.size() == 4) {
      return "select(" + of[0].Text() + what + of[1].Text() + ", " + of[2].Text() + "," + of[3].Text() + ")";
    }
    return what + "(" + of[0].Text() + (of.size() > 1 ? ", " + of[1].Text() : "") + ")";
  }
};

class RandomPrograms {
 public:
  explicit RandomPrograms(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t n) { return world::Uniform(random_, n); }

  float Number() {
    const auto some = static_cast<float>(world::UnitInterval(random_) * 4 - 2);
    switch (Below(16)) {
      case 0:
        return 0;
      case 1:
        return -0.0f;
      case 2:
        return kInf;
      case 3:
        return -kInf;
      case 4:
        return kNan;
      case 5:
        return some * 1e-39f;
      case 6:
        return some * 1e38f;
      default:
        return some;
    }
  }

  Tree Expression(const std::vector<std::string>& names, int depth) {
    static const char* const kBinary[] = {"+", "-", "*", "/", "min", "max"};
    static const char* const kUnary[] = {"-", "sqrt", "abs"};
    static const char* const kComparisons[] = {"<", "<=", ">", ">=", "==", "!="};
    static const char* const kNumbers[] = {"0", "1", "0.5", "3e-3", "1e30", "7"};
    const auto sub = [&] { return Expression(names, depth - 1); };
    const uint64_t kind = depth == 0 ? Below(4) : Below(16);
    if (kind == 0) {
      const std::string text = kNumbers[Below(6)];
      return {.what = text, .of = {}, .number = std::stof(text)};
    }
    if (kind < 4) return {.what = names[Below(names.size())], .of = {}};
    if (kind < 6) return {.what = kUnary[Below(3)], .of = {sub()}};
    if (kind < 8) return {.what = kComparisons[Below(6)], .of = {sub(), sub(), sub(), sub()}};
    return {.what = kBinary[Below(6)], .of = {sub(), sub()}};
  }

  world::SplitMix64 random_;
};

float Stored(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fc00000u) : value;
}

// True if it was an expression that may be used.
bool CheckRandomProgram(uint64_t seed) {
  RandomPrograms random(seed);
  const std::vector<absl::string_view> slots = {"n", "z"};
  const std::vector<absl::string_view> parameters = {"lr", "beta"};
  std::vector<std::string> names = {"w", "g", "n", "z", "lr", "beta"};
  const bool steps = random.Below(2) == 0;
  if (steps) names.emplace_back("step");
  std::vector<std::pair<std::string, Tree>> statements;
  std::string code;
  const uint64_t count = 1 + random.Below(6);
  for (uint64_t i = 0; i < count; ++i) {
    static const char* const kTargets[] = {"w", "n", "z", "a", "b"};
    const std::string target = i + 1 == count ? "w" : kTargets[random.Below(5)];
    statements.emplace_back(target, random.Expression(names, 1 + static_cast<int>(random.Below(4))));
    code += target + (random.Below(2) == 0 ? "=" : " =\n") + statements.back().second.Text() + ";";
    if (target.size() == 1 && std::find(names.begin(), names.end(), target) == names.end())
      names.push_back(target);
  }
  const absl::StatusOr<Program> program = Compile({.code = code, .slots = slots, .parameters = parameters});
  if (!program.ok()) return false;
  const std::vector<float> rates = {0.25f, random.Number()};
  const Evaluator evaluator(std::make_shared<const Program>(*program), rates);
  const size_t planes = program->stored.size();
  EXPECT_EQ(planes, CountsSteps(code) ? 4u : 3u);
  const size_t values = 1 + random.Below(300);
  const size_t stride = values + random.Below(3);
  std::vector<float> state(planes * stride, 77);
  for (float& value : state) value = Stored(random.Number());
  std::vector<float> expected = state;
  for (int update = 0; update < 3; ++update) {
    std::string gradients(values * sizeof(float) + 1, '\0');
    for (size_t i = 0; i < values; ++i) {
      const float g = random.Number();
      std::memcpy(gradients.data() + 1 + i * sizeof(float), &g, sizeof(g));
      Names at = {{"g", g}, {"lr", rates[0]}, {"beta", rates[1]}};
      at["w"] = expected[i];
      at["n"] = expected[stride + i];
      at["z"] = expected[2 * stride + i];
      if (planes == 4) at["step"] = expected[3 * stride + i] + 1;
      for (const auto& [target, tree] : statements) at[target] = tree.Worth(at);
      expected[i] = Stored(at["w"]);
      expected[stride + i] = Stored(at["n"]);
      expected[2 * stride + i] = Stored(at["z"]);
      if (planes == 4) expected[3 * stride + i] = Stored(at["step"]);
    }
    evaluator.Apply(state.data(), stride, gradients.data() + 1, values);
    for (size_t i = 0; i < state.size(); ++i) {
      if (Bits(state[i]) == Bits(expected[i])) continue;
      ADD_FAILURE() << "seed " << seed << ", value " << i % stride << " of plane " << i / stride << ": "
                    << state[i] << " against " << expected[i] << "\n"
                    << code;
      return true;
    }
  }
  return true;
}

TEST(EvaluatorTest, RandomProgramsEqualOneValueAtATimeBitForBit) {
  int usable = 0;
  for (uint64_t seed = 1; seed <= 3000 && !::testing::Test::HasFailure(); ++seed) {
    usable += CheckRandomProgram(seed) ? 1 : 0;
  }
  EXPECT_GT(usable, 2500);
}

}  // namespace
}  // namespace paceline::expression
