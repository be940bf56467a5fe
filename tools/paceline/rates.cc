#include "tools/paceline/rates.h"

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/table/about.h"
#include "libs/table/schema.h"
#include "libs/wire/schema_codec.h"

namespace paceline::tool {

std::string RuleText(const v1::Rule& rule) {
  const absl::StatusOr<table::Rule> known = wire::RuleFromProto(rule);
  if (!known.ok()) return "-";
  std::string text(table::NameOfRule(*known));
  table::EachParameter(*known, [&text](const table::Parameter& parameter, float value) {
    absl::StrAppend(&text, " ", parameter.name, "=", absl::StrFormat("%.6g", value));
  });
  return text;
}

absl::StatusOr<v1::Rule> WithRates(const v1::Rule& rule, const std::vector<std::string>& rates) {
  absl::StatusOr<table::Rule> changed = wire::RuleFromProto(rule);
  if (!changed.ok()) return absl::InvalidArgumentError("the table's rule is unknown to this version");
  for (const std::string& rate : rates) {
    const size_t equals = rate.find('=');
    const std::string name = rate.substr(0, equals);
    float value = 0;
    if (equals == std::string::npos || !absl::SimpleAtof(rate.substr(equals + 1), &value)) {
      return absl::InvalidArgumentError(absl::StrCat("'", rate, "'; expected NAME=NUMBER, such as lr=0.05"));
    }
    std::vector<std::string> known;
    table::EachParameter(*changed,
                         [&known](const table::Parameter& one, float) { known.emplace_back(one.name); });
    // On the wire lr is called so.
    const bool long_name = name == "learning_rate" && absl::c_find(known, name) == known.end();
    const std::string wanted = long_name ? "lr" : name;
    table::EachParameter(*changed, [&](const table::Parameter& one, float& now) {
      if (one.name == wanted) now = value;
    });
    if (absl::c_find(known, wanted) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "': the rule ", table::NameOfRule(*changed),
                     known.empty() ? " has no rates" : absl::StrCat(" has ", absl::StrJoin(known, ", "))));
  }
  return wire::ToProto(*changed);
}

}  // namespace paceline::tool
