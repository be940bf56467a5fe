#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/sparse_lr/options.h"

namespace paceline::examples {

// The model as the cluster holds it, `columns` weights, read by a client of its own without a clock. It holds
// every update of clocks below `min_clock`; once all workers have finished, that is every update.
absl::StatusOr<std::vector<float>> ReadModel(const RunOptions& options, uint64_t columns, uint64_t min_clock);

}  // namespace paceline::examples
