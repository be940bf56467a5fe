#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// A network of eight small layers and one fat last one, trained by one worker over a link that is limited so
// that communication takes as long as computation: seconds an iteration with slices and priorities, beside
// whole layers in the order in which backward passes bring them forth (Jayarajan, Wei, Gibson, Fedorova,
// Pekhimenko: Priority-based parameter propagation for distributed DNN training, MLSys 2019); and with slices
// of several sizes. A layer's pass is a wait of a set time, as if an accelerator computed it, and its
// gradient that of a quadratic loss: the losses of all variants must be the same.
//
// Starts a cluster of its own, in a network of its own, which needs root and the programs ip, tc and nsenter;
// without them its results are skipped.
absl::StatusOr<std::vector<Result>> Priorities(const Setting& setting);

}  // namespace paceline::bench
