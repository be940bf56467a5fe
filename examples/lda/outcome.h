#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples/lda/options.h"
#include "examples/lib/totals.h"

namespace paceline::examples {

// A finished run.
struct LdaOutcome {
  double perplexity = 0;
  double reference_perplexity = 0;  // of the same sampling in one process
  double unigram_perplexity = 0;    // of a model without topics
  double reference_seconds = 0;
  std::vector<LossPoint> reference_curve;
  uint64_t tokens = 0;  // of the documents that were sampled
  // With --work queue: so many were counted under another topic than they have, for workers that were killed,
  // before that was made good.
  std::optional<uint64_t> tokens_repaired;
  Totals totals;
};

// For people: several lines.
std::string FormatOutcome(const LdaOptions& options, const LdaOutcome& outcome);
// For programs: one JSON object.
std::string OutcomeJson(const LdaOptions& options, const LdaOutcome& outcome);

}  // namespace paceline::examples
