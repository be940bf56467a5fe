#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/lib/totals.h"
#include "examples/sparse_lr/convergence.h"
#include "examples/sparse_lr/libsvm.h"
#include "examples/sparse_lr/logistic.h"
#include "examples/sparse_lr/options.h"

namespace paceline::examples {

// How good a model is.
struct Score {
  Metrics test;
  double objective = 0;  // of the training set: its mean log-loss, and the penalties
  size_t nonzeros = 0;
  double seconds = 0;  // that its training took
};

// The penalties that the rule of `options` minimises beside the log-loss.
Penalties PenaltiesOf(const RunOptions& options);

Score ScoreOf(const Dataset& train, const Dataset& test, absl::Span<const float> weights,
              const Penalties& penalties);

// A finished run.
struct Outcome {
  Score cluster;
  Score reference;    // the same training in one process
  uint64_t rows = 0;  // of the training set
  Totals totals;
  std::string not_converged;  // empty: it has
};

// The warning about the cluster's model if it is far from the best; empty if it is not.
std::string WhyNotConverged(const RunOptions& options, const Dataset& train, const Dataset& test,
                            absl::Span<const float> weights);

// For people: several lines.
std::string FormatOutcome(const RunOptions& options, const Outcome& outcome);
// For programs: one JSON object. Times are seconds, losses nats, waits sums over the workers.
std::string OutcomeJson(const RunOptions& options, const Outcome& outcome);
// One line `column weight` for each weight that is not 0, below a line that begins with '#'. The weights are
// written such that reading gives the same bits.
std::string ModelText(const RunOptions& options, absl::Span<const float> weights);

}  // namespace paceline::examples
