#include "tools/paceline/rates.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace paceline::tool {
namespace {

using google::protobuf::FieldDescriptor;

// The one alternative that is set; nullptr: none.
const FieldDescriptor* KindOf(const v1::Rule& rule) {
  return v1::Rule::descriptor()->FindFieldByNumber(rule.kind_case());
}

// The short name of a field: "lr" for learning_rate, as in the C++ interface.
std::string NameOf(const FieldDescriptor& field) {
  return field.name() == "learning_rate" ? "lr" : std::string(field.name());
}

}  // namespace

std::string RuleText(const v1::Rule& rule) {
  const FieldDescriptor* kind = KindOf(rule);
  if (kind == nullptr) return "-";
  std::string text(kind->name());
  const google::protobuf::Message& rates = rule.GetReflection()->GetMessage(rule, kind);
  for (int i = 0; i < kind->message_type()->field_count(); ++i) {
    const FieldDescriptor* field = kind->message_type()->field(i);
    absl::StrAppend(&text, " ", NameOf(*field), "=",
                    absl::StrFormat("%.6g", rates.GetReflection()->GetFloat(rates, field)));
  }
  return text;
}

absl::StatusOr<v1::Rule> WithRates(const v1::Rule& rule, const std::vector<std::string>& rates) {
  const FieldDescriptor* kind = KindOf(rule);
  if (kind == nullptr) return absl::InvalidArgumentError("the table's rule is unknown to this version");
  std::vector<std::string> known;
  for (int i = 0; i < kind->message_type()->field_count(); ++i) {
    known.push_back(NameOf(*kind->message_type()->field(i)));
  }
  v1::Rule changed = rule;
  google::protobuf::Message* to = changed.GetReflection()->MutableMessage(&changed, kind);
  for (const std::string& rate : rates) {
    const size_t equals = rate.find('=');
    const std::string name = rate.substr(0, equals);
    float value = 0;
    if (equals == std::string::npos || !absl::SimpleAtof(rate.substr(equals + 1), &value)) {
      return absl::InvalidArgumentError(absl::StrCat("'", rate, "'; expected NAME=NUMBER, such as lr=0.05"));
    }
    const FieldDescriptor* field = nullptr;
    for (int i = 0; i < kind->message_type()->field_count(); ++i) {
      const FieldDescriptor* one = kind->message_type()->field(i);
      if (name == NameOf(*one) || name == one->name()) field = one;
    }
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          known.empty()
              ? absl::StrCat("'", name, "': the rule ", kind->name(), " has no rates")
              : absl::StrCat("'", name, "': the rule ", kind->name(), " has ", absl::StrJoin(known, ", ")));
    }
    to->GetReflection()->SetFloat(to, field, value);
  }
  return changed;
}

}  // namespace paceline::tool
