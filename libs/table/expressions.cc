#include "libs/table/expressions.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "libs/base/text.h"

namespace paceline::table {
namespace {

std::vector<absl::string_view> NamesIn(const std::vector<Expression::Named>& all) {
  std::vector<absl::string_view> names;
  for (const Expression::Named& one : all) names.emplace_back(one.name);
  return names;
}

}  // namespace

absl::StatusOr<expression::Program> Compile(const Expression& rule) {
  const std::vector<absl::string_view> slots = NamesIn(rule.slots);
  const std::vector<absl::string_view> parameters = NamesIn(rule.params);
  return expression::Compile({.code = rule.code, .slots = slots, .parameters = parameters});
}

uint32_t SlotsPerValue(const Expression& rule) {
  return static_cast<uint32_t>(rule.slots.size()) + (expression::CountsSteps(rule.code) ? 1 : 0);
}

std::string FixedText(const Expression& rule) {
  const std::string line = absl::StrReplaceAll(rule.code, {{"\n", " "}});
  std::string text = absl::StrCat("\"", Escaped(line, expression::kCodeBytesMax), "\"");
  const size_t shown = std::min(rule.slots.size(), expression::kSlotsMax);
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, ", slot ", Escaped(rule.slots[i].name, expression::kNameBytesMax),
                    absl::StrFormat(" %.9g", rule.slots[i].value));
  }
  return text;
}

}  // namespace paceline::table
