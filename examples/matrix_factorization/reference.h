#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "examples/lib/totals.h"
#include "examples/matrix_factorization/options.h"
#include "examples/matrix_factorization/ratings.h"

namespace paceline::examples {

// A model in memory: rows of users and items in the order of their numbers.
struct FactorModel {
  std::vector<float> users;
  std::vector<float> items;
  size_t dim = 0;

  FactorRows rows() { return {absl::MakeSpan(users), absl::MakeSpan(items), dim}; }
};

// The model before the first step, as the cluster's tables have it.
FactorModel StartModel(const FactorOptions& options, const Ratings& ratings);

// The yardstick of the distributed job: the same steps, in the same order, in one process and one thread.
struct FactorReference {
  FactorModel model;
  std::vector<LossPoint> curve;  // a point an epoch
};
absl::StatusOr<FactorReference> TrainReference(const FactorOptions& options, const Ratings& ratings,
                                               const SplitRatings& split);

}  // namespace paceline::examples
