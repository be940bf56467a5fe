#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/sparse_lr/libsvm.h"

namespace paceline::examples {

// The penalties that are added to the mean log-loss.
struct Penalties {
  double l1 = 0;  // times the sum of |w|
  double l2 = 0;  // times half the sum of w²
};
double Objective(const Dataset& train, absl::Span<const float> weights, const Penalties& penalties);

// The model that a few steps of proximal gradient descent reach from `weights`. Each step that does not lower
// the objective is made smaller, so it is never worse there. The steps follow the columns' curvature: they
// need no rate, and go far from a model that oscillates. Costs some 30 passes over the data.
std::vector<float> Polished(const Dataset& train, absl::Span<const float> weights,
                            const Penalties& penalties);

struct Losses {
  double objective = 0;  // on the training set
  double held_out = 0;   // mean log-loss on the other set
};

// A warning about a training whose model is far from its optimum: `polished` is much better on both sets.
// (The training set alone proves nothing: a model that is not trained to the end may do better on other
// data.) Empty: there is nothing to warn about.
std::string NotConverged(const Losses& losses, const Losses& polished);

}  // namespace paceline::examples
