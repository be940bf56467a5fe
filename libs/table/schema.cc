#include "libs/table/schema.h"

#include <bit>
#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "libs/base/status.h"
#include "libs/base/text.h"
#include "libs/ring/hash.h"
#include "libs/table/about.h"
#include "libs/table/expressions.h"

namespace paceline::table {
namespace {

std::string Text(float value) {
  return absl::StrFormat("%.9g", value);
}

absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view expected,
                   absl::string_view remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat("schema: ", field, " is ", value, "; expected ", expected, ": ", remedy));
}

absl::Status CheckAllowed(const std::string& field, Allowed allowed, float value) {
  if (!std::isfinite(value)) return Wrong(field, Text(value), "a finite number", "give one");
  if (allowed == Allowed::kPositive && !(value > 0))
    return Wrong(field, Text(value), "more than 0", "a rule with a step of 0 or less does not learn");
  if (allowed == Allowed::kNotNegative && !(value >= 0))
    return Wrong(field, Text(value), "0 or more", "give 0 to do without");
  if (allowed == Allowed::kFraction && !(value >= 0 && value < 1))
    return Wrong(field, Text(value), "0 or more, and less than 1", "it is what remains after a step");
  return absl::OkStatus();
}

absl::Status CheckForm(const Rule& rule) {
  const Expression* written = std::get_if<Expression>(&rule);
  if (written == nullptr) return absl::OkStatus();
  for (const Expression::Named& slot : written->slots) {
    if (std::isfinite(slot.value)) continue;
    return Wrong(
        absl::StrCat("rule.slots, the first value of '", Escaped(slot.name, expression::kNameBytesMax), "',"),
        Text(slot.value), "a finite number", "give one");
  }
  const absl::StatusOr<expression::Program> program = Compile(*written);
  if (program.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schema: ", program.status().message()));
}

// Of a rule or an initialiser, which the schema has as `field`.
template <class Choice>
absl::Status Check(absl::string_view field, const Choice& choice) {
  absl::Status status;
  EachParameter(choice, [&](const Parameter& parameter, float value) {
    if (status.ok())
      status = CheckAllowed(absl::StrCat(field, ".", parameter.name), parameter.allowed, value);
  });
  ABSL_RETURN_IF_ERROR(status);
  const auto wrong = std::visit([]<class T>(const T& chosen) { return About<T>::Wrong(chosen); }, choice);
  if (!wrong.has_value()) return absl::OkStatus();
  return Wrong(absl::StrCat(field, ".", wrong->name), Text(wrong->value), wrong->expected, wrong->remedy);
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
// What describes a choice besides its parameters; mostly nothing.
template <class... T>
std::string FixedPart(const std::variant<T...>& choice) {
  return std::visit(
      []<class One>(const One& chosen) -> std::string {
        if constexpr (std::is_same_v<One, Expression>) {
          return FixedText(chosen);
        } else {
          return "";
        }
      },
      choice);
}

// "normal(mean 0, stddev 1)"; a parameter called `value` goes without its name.
template <class... T>
std::string Text(const std::variant<T...>& choice) {
  const std::string fixed = FixedPart(choice);
  std::string parameters = fixed.empty() ? "" : absl::StrCat("(", fixed);
  EachParameter(choice, [&](const Parameter& parameter, float value) {
    absl::StrAppend(&parameters, parameters.empty() ? "(" : ", ",
                    parameter.name == "value" ? "" : absl::StrCat(parameter.name, " "), Text(value));
  });
  return absl::StrCat(Names(choice)[choice.index()], parameters, parameters.empty() ? "" : ")");
}

// A rule with the values of another one's parameters is that one, then.
bool DifferInParametersOnly(const Rule& a, const Rule& b) {
  const std::vector<float> values = ParametersOf(a);
  if (values.size() != ParametersOf(b).size()) return false;
  Rule same = b;
  EachParameter(same, [&, i = size_t{0}](const Parameter&, float& value) mutable { value = values[i++]; });
  return same == a;
}

}  // namespace

absl::string_view NameOfRule(const Rule& rule) {
  return std::visit([]<class T>(const T&) { return absl::string_view(About<T>::kName); }, rule);
}

uint32_t LevelOf(const Rule& rule) {
  return std::visit([]<class T>(const T&) { return About<T>::kLevel; }, rule);
}

uint32_t SlotsPerValue(const Rule& rule) {
  const Expression* written = std::get_if<Expression>(&rule);
  if (written != nullptr) return SlotsPerValue(*written);
  return std::visit([]<class T>(const T&) { return static_cast<uint32_t>(About<T>::kSlots.size()); }, rule);
}

std::vector<std::string> SlotNamesOf(const Rule& rule) {
  std::vector<std::string> names;
  std::visit(
      [&names]<class T>(const T&) {
        for (const absl::string_view name : About<T>::kSlots) names.emplace_back(name);
      },
      rule);
  const Expression* written = std::get_if<Expression>(&rule);
  if (written == nullptr) return names;
  for (const Expression::Named& slot : written->slots) names.push_back(slot.name);
  if (names.size() < SlotsPerValue(rule)) names.emplace_back("step");
  return names;
}

std::vector<float> ParametersOf(const Rule& rule) {
  std::vector<float> values;
  EachParameter(rule, [&values](const Parameter&, float value) { values.push_back(value); });
  return values;
}

bool IsAdditive(const Rule& rule) {
  return std::visit([]<class T>(const T&) { return About<T>::kAdditive; }, rule);
}

size_t SlotsPerRow(const Rule& rule, uint32_t dim) {
  return size_t{SlotsPerValue(rule)} * dim;
}

size_t FloatsPerRow(const Schema& schema) {
  return schema.dim + SlotsPerRow(schema.rule, schema.dim);
}

absl::Status Validate(const Schema& schema) {
  ABSL_RETURN_IF_ERROR(CheckRows(schema));
  ABSL_RETURN_IF_ERROR(CheckForm(schema.rule));
  ABSL_RETURN_IF_ERROR(CheckWidth(schema));
  ABSL_RETURN_IF_ERROR(Check("init", schema.init));
  ABSL_RETURN_IF_ERROR(Check("rule", schema.rule));
  if (schema.mean && !schema.aggregated) {
    return Wrong("mean", "true", "false where aggregated is false",
                 "only updates that are folded have a mean; set aggregated too");
  }
  return absl::OkStatus();
}

absl::Status CheckRuleChange(const Rule& from, const Rule& to) {
  if (!DifferInParametersOnly(from, to)) {
    return Wrong("rule", Text(to), absl::StrCat("rates for ", Text(from)),
                 "a table keeps its rule for life; create another table for another rule");
  }
  const std::vector<float> next = ParametersOf(to);
  absl::Status status;
  EachParameter(from, [&, i = size_t{0}](const Parameter& parameter, float value) mutable {
    const float wanted = next[i++];
    if (!parameter.for_life || wanted == value || !status.ok()) return;
    status = Wrong(absl::StrCat("rule.", parameter.name), Text(wanted), Text(value),
                   "it sets new rows' slots and cannot change; only rates can");
  });
  return status;
}

uint64_t HashOf(const Rule& rule) {
  uint64_t hash = rule.index();
  for (const char c : FixedPart(rule)) hash = ring::Mix64(hash, static_cast<unsigned char>(c));
  EachParameter(rule, [&hash](const Parameter&, float value) {
    hash = ring::Mix64(hash, std::bit_cast<uint32_t>(value));
  });
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
