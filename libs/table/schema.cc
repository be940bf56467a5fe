#include "libs/table/schema.h"

#include <bit>
#include <cmath>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "libs/base/status.h"
#include "libs/ring/hash.h"

namespace paceline::table {
namespace {

// A float parameter of an initialiser or a rule, under the name that users know.
struct Parameter {
  absl::string_view name;
  float value;
};

std::string Text(float value) {
  return absl::StrFormat("%.9g", value);
}

absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view expected,
                   absl::string_view remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat("schema: ", field, " is ", value, "; expected ", expected, ": ", remedy));
}

absl::Status CheckFinite(std::initializer_list<Parameter> parameters) {
  for (const Parameter& p : parameters) {
    if (!std::isfinite(p.value)) return Wrong(p.name, Text(p.value), "a finite number", "give one");
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(Parameter p) {
  ABSL_RETURN_IF_ERROR(CheckFinite({p}));
  if (p.value > 0) return absl::OkStatus();
  return Wrong(p.name, Text(p.value), "more than 0", "a rule with a step of 0 or less does not learn");
}

absl::Status CheckNotNegative(Parameter p) {
  ABSL_RETURN_IF_ERROR(CheckFinite({p}));
  if (p.value >= 0) return absl::OkStatus();
  return Wrong(p.name, Text(p.value), "0 or more", "give 0 to do without");
}

absl::Status Check(const Zeros&) {
  return absl::OkStatus();
}
absl::Status Check(const Constant& init) {
  return CheckFinite({{"init.value", init.value}});
}
absl::Status Check(const Uniform& init) {
  ABSL_RETURN_IF_ERROR(CheckFinite({{"init.low", init.low}, {"init.high", init.high}}));
  if (init.low <= init.high) return absl::OkStatus();
  return Wrong("init.low", Text(init.low), absl::StrCat("at most init.high, ", Text(init.high)),
               "swap the two");
}
absl::Status Check(const Normal& init) {
  ABSL_RETURN_IF_ERROR(CheckFinite({{"init.mean", init.mean}}));
  return CheckNotNegative({"init.stddev", init.stddev});
}

absl::Status Check(const Assign&) {
  return absl::OkStatus();
}
absl::Status Check(const Add&) {
  return absl::OkStatus();
}
absl::Status Check(const Sgd& rule) {
  return CheckPositive({"rule.lr", rule.lr});
}
absl::Status Check(const Adagrad& rule) {
  ABSL_RETURN_IF_ERROR(CheckPositive({"rule.lr", rule.lr}));
  ABSL_RETURN_IF_ERROR(CheckNotNegative({"rule.epsilon", rule.epsilon}));
  ABSL_RETURN_IF_ERROR(CheckNotNegative({"rule.initial_accumulator", rule.initial_accumulator}));
  // A gradient of 0 must not divide 0 by 0.
  if (rule.epsilon > 0 || rule.initial_accumulator > 0) return absl::OkStatus();
  return Wrong("rule.epsilon", "0", "more than 0 where rule.initial_accumulator is 0",
               "give one of them a small positive value");
}
absl::Status Check(const FtrlProximal& rule) {
  ABSL_RETURN_IF_ERROR(CheckPositive({"rule.alpha", rule.alpha}));
  ABSL_RETURN_IF_ERROR(CheckNotNegative({"rule.beta", rule.beta}));
  ABSL_RETURN_IF_ERROR(CheckNotNegative({"rule.l1", rule.l1}));
  ABSL_RETURN_IF_ERROR(CheckNotNegative({"rule.l2", rule.l2}));
  // A gradient so small that its square is 0 must not divide by 0.
  if (rule.beta > 0 || rule.l2 > 0) return absl::OkStatus();
  return Wrong("rule.beta", "0", "more than 0 where rule.l2 is 0", "give one of them a positive value");
}

absl::Status CheckRows(const Schema& schema) {
  switch (schema.kind) {
    case Kind::kSparse:
      if (schema.rows == 0) return absl::OkStatus();
      return Wrong("rows", absl::StrCat(schema.rows), "0 for a sparse table",
                   "its keys are not bounded; make the table ranged if they are 0 .. rows-1");
    case Kind::kRanged:
      if (schema.rows >= 1) return absl::OkStatus();
      return Wrong("rows", "0", "at least 1 for a ranged table", "give the number of its keys");
  }
  return Wrong("kind", absl::StrCat(static_cast<int>(schema.kind)), "1 (sparse) or 2 (ranged)",
               "choose one of them");
}

absl::Status CheckWidth(const Schema& schema) {
  if (schema.dim == 0) return Wrong("dim", "0", "at least 1", "give the number of values in a row");
  const size_t max_dim = (kPageBytes - sizeof(uint64_t)) / sizeof(float) / (1 + SlotsPerValue(schema.rule));
  if (schema.dim <= max_dim) return absl::OkStatus();
  return Wrong("dim", absl::StrCat(schema.dim),
               absl::StrCat("at most ", max_dim, " with ", SlotsPerValue(schema.rule), " slots a value"),
               "a row and its slots must fit a page of 64 KiB; spread it over several keys");
}

std::string Text(const Zeros&) {
  return "zeros";
}
std::string Text(const Constant& init) {
  return absl::StrCat("constant(", Text(init.value), ")");
}
std::string Text(const Uniform& init) {
  return absl::StrCat("uniform(low ", Text(init.low), ", high ", Text(init.high), ")");
}
std::string Text(const Normal& init) {
  return absl::StrCat("normal(mean ", Text(init.mean), ", stddev ", Text(init.stddev), ")");
}
std::string Text(const Assign&) {
  return "assign";
}
std::string Text(const Add&) {
  return "add";
}
std::string Text(const Sgd& rule) {
  return absl::StrCat("sgd(lr ", Text(rule.lr), ")");
}
std::string Text(const Adagrad& rule) {
  return absl::StrCat("adagrad(lr ", Text(rule.lr), ", epsilon ", Text(rule.epsilon),
                      ", initial_accumulator ", Text(rule.initial_accumulator), ")");
}
std::string Text(const FtrlProximal& rule) {
  return absl::StrCat("ftrl_proximal(alpha ", Text(rule.alpha), ", beta ", Text(rule.beta), ", l1 ",
                      Text(rule.l1), ", l2 ", Text(rule.l2), ")");
}
std::string Text(Kind kind) {
  return kind == Kind::kSparse ? "sparse" : "ranged";
}
std::string Text(bool value) {
  return value ? "true" : "false";
}
std::string Text(uint32_t value) {
  return absl::StrCat(value);
}
std::string Text(uint64_t value) {
  return absl::StrCat(value);
}
template <class... Alternatives>
std::string Text(const std::variant<Alternatives...>& choice) {
  return std::visit([](const auto& chosen) { return Text(chosen); }, choice);
}

}  // namespace

uint32_t SlotsPerValue(const Rule& rule) {
  if (std::holds_alternative<Adagrad>(rule)) return 1;
  if (std::holds_alternative<FtrlProximal>(rule)) return 2;
  return 0;
}

size_t SlotsPerRow(const Rule& rule, uint32_t dim) {
  return size_t{SlotsPerValue(rule)} * dim;
}

size_t FloatsPerRow(const Schema& schema) {
  return schema.dim + SlotsPerRow(schema.rule, schema.dim);
}

absl::Status Validate(const Schema& schema) {
  ABSL_RETURN_IF_ERROR(CheckRows(schema));
  ABSL_RETURN_IF_ERROR(CheckWidth(schema));
  ABSL_RETURN_IF_ERROR(std::visit([](const auto& init) { return Check(init); }, schema.init));
  ABSL_RETURN_IF_ERROR(std::visit([](const auto& rule) { return Check(rule); }, schema.rule));
  if (schema.mean && !schema.aggregated) {
    return Wrong("mean", "true", "false where aggregated is false",
                 "only updates that are folded have a mean; set aggregated too");
  }
  return absl::OkStatus();
}

absl::Status CheckRuleChange(const Rule& from, const Rule& to) {
  if (from.index() != to.index()) {
    return Wrong("rule", Text(to), absl::StrCat("rates for ", Text(from)),
                 "a table keeps its rule for life; create another table for another rule");
  }
  const auto* adagrad = std::get_if<Adagrad>(&from);
  if (adagrad == nullptr) return absl::OkStatus();
  const float accumulator = std::get<Adagrad>(to).initial_accumulator;
  if (accumulator == adagrad->initial_accumulator) return absl::OkStatus();
  return Wrong("rule.initial_accumulator", Text(accumulator), Text(adagrad->initial_accumulator),
               "it sets new rows' slots and cannot change; only rates can");
}

uint64_t HashOf(const Rule& rule) {
  uint64_t hash = rule.index();
  const auto mix = [&hash](std::initializer_list<float> values) {
    for (float value : values) hash = ring::Mix64(hash, std::bit_cast<uint32_t>(value));
  };
  if (const auto* sgd = std::get_if<Sgd>(&rule)) mix({sgd->lr});
  if (const auto* a = std::get_if<Adagrad>(&rule)) mix({a->lr, a->epsilon, a->initial_accumulator});
  if (const auto* f = std::get_if<FtrlProximal>(&rule)) mix({f->alpha, f->beta, f->l1, f->l2});
  return hash;
}

std::optional<std::string> FirstDifference(const Schema& a, const Schema& b) {
  std::optional<std::string> found;
  const auto compare = [&found](absl::string_view field, const auto& x, const auto& y) {
    if (!found && !(x == y)) found = absl::StrCat(field, ": ", Text(x), " against ", Text(y));
  };
  compare("kind", a.kind, b.kind);
  compare("dim", a.dim, b.dim);
  compare("rows", a.rows, b.rows);
  compare("init", a.init, b.init);
  compare("rule", a.rule, b.rule);
  compare("aggregated", a.aggregated, b.aggregated);
  compare("mean", a.mean, b.mean);
  compare("accept_non_finite", a.accept_non_finite, b.accept_non_finite);
  compare("seed", a.seed, b.seed);
  return found;
}

}  // namespace paceline::table
