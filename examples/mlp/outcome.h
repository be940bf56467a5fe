#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/lib/totals.h"
#include "examples/mlp/options.h"

namespace paceline::examples {

// A finished run.
struct MlpOutcome {
  double test_accuracy = 0;  // of the cluster's model
  double reference_test_accuracy = 0;
  double reference_seconds = 0;
  std::vector<LossPoint> reference_curve;
  uint64_t images = 0;   // trained on
  uint64_t weights = 0;  // of all layers
  Totals totals;
};

// For people: several lines.
std::string FormatOutcome(const MlpOptions& options, const MlpOutcome& outcome);
// For programs: one JSON object.
std::string OutcomeJson(const MlpOptions& options, const MlpOutcome& outcome);

}  // namespace paceline::examples
