#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// An epoch of logistic regression, as `paceline-bench lr` has it: on our ranged and sparse tables, on ps-lite
// with both its handles, and on an array without any server, in turns. `driver` is ps-lite's; an error says
// why there is none. The mean losses of the first epoch must agree.
absl::StatusOr<std::vector<Result>> TrainInTurns(tool::Supervisor& supervisor, const Setting& setting,
                                                 const absl::StatusOr<std::filesystem::path>& driver);

}  // namespace paceline::bench::peers
