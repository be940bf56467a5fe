#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "paceline/rules.h"

// Describes each update rule and each initialiser, once: its name, its parameters with their allowed values,
// and its effect. Checks, texts, hashes, the wire form, slots and kernels follow from it, so a new
// rule is a message in types.proto, a struct in paceline/rules.h and an About here.
namespace paceline::table {

enum class Allowed : uint8_t { kFinite, kPositive, kNotNegative, kFraction };

// A parameter under the name that users know.
struct Parameter {
  absl::string_view name;
  Allowed allowed = Allowed::kFinite;
  bool for_life = false;  // enters new rows' slots: a change of rates cannot change it
};

// Parameters that are allowed each by itself, and not together. The names are those of the parameters.
struct Conflict {
  absl::string_view name;
  float value;
  std::string expected;
  absl::string_view remedy;
};

// The part that most descriptions share.
struct AboutAny {
  static constexpr uint32_t kLevel = 1;  // the feature level that it belongs to

  static void Parameters(auto&, auto&&) {
  }  // calls visit(Parameter, float&) for each, in the order of the wire
  static std::optional<Conflict> Wrong(const auto&) { return std::nullopt; }
};

template <size_t kCount>
using SlotNames = std::array<absl::string_view, kCount>;

// Of rules. w is a value, g the update's gradient for it, the others are slots, all f32. `Step` does one
// update of one value: the operations in the order written, each rounded to f32, never fused, so that
// replicas agree bit for bit. One value never affects another.
struct AboutRule : AboutAny {
  static constexpr SlotNames<0> kSlots = {};  // in the order of Step's arguments; at most four
  static constexpr bool kLastWins = false;    // two updates of one key are the later one instead of their sum
  static constexpr bool kAdditive = false;    // an update changes a value by a function of the gradient alone
  static float InitialSlot(const auto&) { return 0; }
};

template <class T>
struct About;

template <>
struct About<Assign> : AboutRule {
  static constexpr char kName[] = "assign";
  static constexpr bool kLastWins = true;
  static void Step(const Assign&, float g, float& w) { w = g; }
};

template <>
struct About<Add> : AboutRule {
  static constexpr char kName[] = "add";
  static constexpr bool kAdditive = true;
  static void Step(const Add&, float g, float& w) { w = w + g; }
};

template <>
struct About<Sgd> : AboutRule {
  static constexpr char kName[] = "sgd";
  static constexpr bool kAdditive = true;
  static void Parameters(auto& rule, auto&& visit) { visit({"lr", Allowed::kPositive}, rule.lr); }
  static void Step(const Sgd& rule, float g, float& w) { w = w - rule.lr * g; }
};

// Duchi, Hazan, Singer: "Adaptive subgradient methods", JMLR 12, 2011.
template <>
struct About<Adagrad> : AboutRule {
  static constexpr char kName[] = "adagrad";
  static constexpr SlotNames<1> kSlots = {"n"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"epsilon", Allowed::kNotNegative}, rule.epsilon);
    visit({"initial_accumulator", Allowed::kNotNegative, /*for_life=*/true}, rule.initial_accumulator);
  }
  // A gradient of 0 must not divide 0 by 0.
  static std::optional<Conflict> Wrong(const Adagrad& rule) {
    if (rule.epsilon > 0 || rule.initial_accumulator > 0) return std::nullopt;
    return Conflict{"epsilon", 0, "more than 0 where rule.initial_accumulator is 0",
                    "give one of them a small positive value"};
  }
  static float InitialSlot(const Adagrad& rule) { return rule.initial_accumulator; }
  static void Step(const Adagrad& rule, float g, float& w, float& n) {
    n = n + g * g;
    w = w - (rule.lr * g) / (std::sqrt(n) + rule.epsilon);
  }
};

// McMahan et al.: "Ad click prediction: a view from the trenches", KDD 2013, algorithm 1. w is kept up to
// date instead of being computed when it is read.
template <>
struct About<FtrlProximal> : AboutRule {
  static constexpr char kName[] = "ftrl_proximal";
  static constexpr SlotNames<2> kSlots = {"n", "z"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"alpha", Allowed::kPositive}, rule.alpha);
    visit({"beta", Allowed::kNotNegative}, rule.beta);
    visit({"l1", Allowed::kNotNegative}, rule.l1);
    visit({"l2", Allowed::kNotNegative}, rule.l2);
  }
  // A gradient so small that its square is 0 must not divide by 0.
  static std::optional<Conflict> Wrong(const FtrlProximal& rule) {
    if (rule.beta > 0 || rule.l2 > 0) return std::nullopt;
    return Conflict{"beta", 0, "more than 0 where rule.l2 is 0", "give one of them a positive value"};
  }
  static void Step(const FtrlProximal& rule, float g, float& w, float& n, float& z) {
    const float m = n + g * g;
    const float root = std::sqrt(m);
    const float sigma = (root - std::sqrt(n)) / rule.alpha;
    const float pulled = (z + g) - sigma * w;
    z = pulled;
    n = m;
    const float dense =
        -(pulled - std::copysign(rule.l1, pulled)) / ((rule.beta + root) / rule.alpha + rule.l2);
    w = std::abs(pulled) <= rule.l1 ? 0.0f : dense;
  }
};

// Polyak: "Some methods of speeding up the convergence of iteration methods", 1964.
template <>
struct About<Momentum> : AboutRule {
  static constexpr char kName[] = "momentum";
  static constexpr uint32_t kLevel = 2;
  static constexpr SlotNames<1> kSlots = {"v"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"momentum", Allowed::kFraction}, rule.momentum);
  }
  static void Step(const Momentum& rule, float g, float& w, float& v) {
    v = rule.momentum * v + g;
    w = w - rule.lr * v;
  }
};

// Sutskever, Martens, Dahl, Hinton: "On the importance of initialization and momentum in deep learning", ICML
// 2013, equations 3 and 4; w is their θ + μv, the point at which they take the gradient.
template <>
struct About<Nesterov> : AboutRule {
  static constexpr char kName[] = "nesterov";
  static constexpr uint32_t kLevel = 2;
  static constexpr SlotNames<1> kSlots = {"v"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"momentum", Allowed::kFraction}, rule.momentum);
  }
  static void Step(const Nesterov& rule, float g, float& w, float& v) {
    v = rule.momentum * v + g;
    w = w - rule.lr * (g + rule.momentum * v);
  }
};

// A gradient of 0 must not divide 0 by 0.
template <class Rule>
std::optional<Conflict> EpsilonOfZero(const Rule& rule) {
  if (rule.epsilon > 0) return std::nullopt;
  return Conflict{"epsilon", 0, "more than 0", "give it a small positive value"};
}

// Tieleman, Hinton: "Neural networks for machine learning", lecture 6.5, 2012.
template <>
struct About<RmsProp> : AboutRule {
  static constexpr char kName[] = "rmsprop";
  static constexpr uint32_t kLevel = 2;
  static constexpr SlotNames<1> kSlots = {"n"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"decay", Allowed::kFraction}, rule.decay);
    visit({"epsilon", Allowed::kNotNegative}, rule.epsilon);
  }
  static std::optional<Conflict> Wrong(const RmsProp& rule) { return EpsilonOfZero(rule); }
  static void Step(const RmsProp& rule, float g, float& w, float& n) {
    n = rule.decay * n + (1 - rule.decay) * (g * g);
    w = w - (rule.lr * g) / (std::sqrt(n) + rule.epsilon);
  }
};

// Kingma, Ba: "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1. Instead of the row's
// steps t it keeps s = 1 − β1^t and r = 1 − β2^t, the sums of the weights in m and v: no power is computed,
// none gets so small that the processor is slow with it, and the means stay means when the betas are changed.
template <>
struct About<Adam> : AboutRule {
  static constexpr char kName[] = "adam";
  static constexpr uint32_t kLevel = 2;
  static constexpr SlotNames<4> kSlots = {"m", "v", "s", "r"};
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"beta1", Allowed::kFraction}, rule.beta1);
    visit({"beta2", Allowed::kFraction}, rule.beta2);
    visit({"epsilon", Allowed::kNotNegative}, rule.epsilon);
  }
  static std::optional<Conflict> Wrong(const Adam& rule) { return EpsilonOfZero(rule); }
  static void Step(const Adam& rule, float g, float& w, float& m, float& v, float& s, float& r) {
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * (g * g);
    s = rule.beta1 * s + (1 - rule.beta1);
    r = rule.beta2 * r + (1 - rule.beta2);
    w = w - (rule.lr * (m / s)) / (std::sqrt(v / r) + rule.epsilon);
  }
};

// Duchi, Singer: "Efficient online and batch learning using forward backward splitting", JMLR 10, 2009.
template <>
struct About<ProximalSgd> : AboutRule {
  static constexpr char kName[] = "proximal_sgd";
  static constexpr uint32_t kLevel = 2;
  static void Parameters(auto& rule, auto&& visit) {
    visit({"lr", Allowed::kPositive}, rule.lr);
    visit({"l1", Allowed::kNotNegative}, rule.l1);
    visit({"l2", Allowed::kNotNegative}, rule.l2);
  }
  static void Step(const ProximalSgd& rule, float g, float& w) {
    const float moved = w - rule.lr * g;
    const float threshold = rule.lr * rule.l1;
    const float left = std::copysign(std::abs(moved) - threshold, moved) / (1 + rule.lr * rule.l2);
    w = std::abs(moved) <= threshold ? 0.0f : left;
  }
};

// What users wrote, run by libs/table/expression. Its slots are those it names, so it has no Step here.
template <>
struct About<Expression> : AboutRule {
  static constexpr char kName[] = "expression";
  static constexpr uint32_t kLevel = 2;
  static void Parameters(auto& rule, auto&& visit) {
    for (auto& parameter : rule.params) visit({parameter.name}, parameter.value);
  }
};

// Of initialisers. `Value` is the value of the next column of a row. `words` has the row's random words
// (initialiser.h): the next one as a fraction in [0, 1), or as a value of the standard normal distribution.
template <>
struct About<Zeros> : AboutAny {
  static constexpr char kName[] = "zeros";
  static float Value(const Zeros&, auto&) { return 0; }
};

template <>
struct About<Constant> : AboutAny {
  static constexpr char kName[] = "constant";
  static void Parameters(auto& init, auto&& visit) { visit({"value"}, init.value); }
  static float Value(const Constant& init, auto&) { return init.value; }
};

template <>
struct About<Uniform> : AboutAny {
  static constexpr char kName[] = "uniform";
  static void Parameters(auto& init, auto&& visit) {
    visit({"low"}, init.low);
    visit({"high"}, init.high);
  }
  static std::optional<Conflict> Wrong(const Uniform& init) {
    if (init.low <= init.high) return std::nullopt;
    return Conflict{"low", init.low, absl::StrFormat("at most init.high, %.9g", init.high), "swap the two"};
  }
  static float Value(const Uniform& init, auto& words) {
    const double low = init.low;
    return static_cast<float>(low + (static_cast<double>(init.high) - low) * words.Fraction());
  }
};

template <>
struct About<Normal> : AboutAny {
  static constexpr char kName[] = "normal";
  static void Parameters(auto& init, auto&& visit) {
    visit({"mean"}, init.mean);
    visit({"stddev", Allowed::kNotNegative}, init.stddev);
  }
  static float Value(const Normal& init, auto& words) {
    const double mean = init.mean;
    return static_cast<float>(mean + init.stddev * words.Normal());
  }
};

// Calls visit(Parameter, value) for each parameter of what is chosen, in the order of the wire. The value is
// a float& if the choice may be changed.
template <class Choice, class Visit>
void EachParameter(Choice& choice, Visit&& visit) {
  std::visit(
      [&]<class T>(T& chosen) {
        About<std::remove_const_t<T>>::Parameters(
            chosen, [&](const Parameter& parameter, auto& value) { visit(parameter, value); });
      },
      choice);
}

// The names of all there are, in the order of the wire.
template <class... T>
std::vector<absl::string_view> Names(const std::variant<T...>&) {
  return {About<T>::kName...};
}

}  // namespace paceline::table
