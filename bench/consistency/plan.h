#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/consistency/runs.h"
#include "paceline/table_schema.h"

namespace paceline::bench {

// A consistency model by its name in pictures.
struct Model {
  std::string name;
  Consistency consistency;
};

// What is run.
struct Plan {
  std::vector<uint64_t> bounds = {0, 1, 3, 10, 20};                // s of SSP and ESSP
  std::vector<uint64_t> delays = {0, 1, 2, 4, 8, 16};              // tau
  std::vector<float> rates = {0.04f, 0.08f, 0.12f, 0.16f, 0.24f};  // one is chosen at tau = 0
  uint64_t seeds = 5;
  uint64_t tuning_seeds = 3;
  uint64_t rounds = 7;  // of ssp:auto beside fixed bounds
  double minutes_max = 90;
  RunSizes sizes = {};
};

Plan WholePlan();
// In at most 8 minutes: one seed, and fewer bounds and rates.
Plan QuickPlan();
// Shows that it runs, in seconds; its figures mean nothing.
Plan SmallestPlan();

// The bound at which staleness is shown.
constexpr uint64_t kShownBound = 10;
std::vector<Model> StalenessModels();
// BSP, SSP and ESSP of these bounds, and value-bounded asynchrony: by about as much as some clocks change a
// value of the job.
std::vector<Model> ConvergenceModels(TrainedJob job, const std::vector<uint64_t>& bounds);
// As the examples' --model. Not OK: there is no such model.
absl::StatusOr<Model> ModelOf(const std::string& name);

}  // namespace paceline::bench
