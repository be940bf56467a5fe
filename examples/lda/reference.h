#pragma once

#include <vector>

#include "examples/lda/options.h"
#include "examples/lib/totals.h"

namespace paceline::examples {

// The yardstick of the distributed job: as many sweeps, from the same first topics, in one process and one
// thread.
struct LdaReference {
  TopicModel model;
  std::vector<LossPoint> curve;  // a point a sweep: mean -log p of a token, in nats
};
LdaReference SampleReference(const LdaOptions& options, const Corpus& corpus,
                             const std::vector<uint32_t>& documents);

}  // namespace paceline::examples
