#pragma once

#include <string>
#include <vector>

#include "examples/lib/totals.h"
#include "examples/matrix_factorization/options.h"
#include "examples/matrix_factorization/ratings.h"

namespace paceline::examples {

// How good a model is: roots of mean squared errors.
struct FactorScore {
  double test_rmse = 0;
  double train_rmse = 0;
  double seconds = 0;  // that its training took
};
FactorScore ScoreOf(const SplitRatings& split, const FactorRows& model);

// A finished run.
struct FactorOutcome {
  FactorScore cluster;
  FactorScore reference;  // the same training in one process
  std::vector<LossPoint> reference_curve;
  double mean_test_rmse = 0;  // of the mean alone
  uint64_t ratings = 0;       // trained on
  Totals totals;
};

// For people: several lines.
std::string FormatOutcome(const FactorOptions& options, const FactorOutcome& outcome);
// For programs: one JSON object.
std::string OutcomeJson(const FactorOptions& options, const FactorOutcome& outcome);

}  // namespace paceline::examples
