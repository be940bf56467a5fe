#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/v1/types.pb.h"

// Update rules in their command-line form.
namespace paceline::tool {

// "adagrad lr=0.1 epsilon=1e-08", with all parameters that can be set.
std::string RuleText(const v1::Rule& rule);

// `rule` with some of its rates changed, each as NAME=VALUE. INVALID_ARGUMENT names a parameter that the rule
// does not have, and those that it has.
absl::StatusOr<v1::Rule> WithRates(const v1::Rule& rule, const std::vector<std::string>& rates);

}  // namespace paceline::tool
