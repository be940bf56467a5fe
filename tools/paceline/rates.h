#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/v1/types.pb.h"

// Update rules as people write them.
namespace paceline::tool {

// "adagrad lr=0.1 epsilon=1e-08", with everything that can be set.
std::string RuleText(const v1::Rule& rule);

// `rule` with some of its rates set anew, each as NAME=VALUE. INVALID_ARGUMENT naming what the rule does not
// have, and what it has.
absl::StatusOr<v1::Rule> WithRates(const v1::Rule& rule, const std::vector<std::string>& rates);

}  // namespace paceline::tool
