#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// What a worker that joins costs the others. Eight workers under SSP, which sleep instead of computing, train
// for some seconds; then another one joins, and they go on for as long. Ten times: how much longer the worst
// of the eight waits for slower workers, and how soon the first push of the new one is acknowledged, from its
// call of Connect on. Starts a cluster of its own.
absl::StatusOr<std::vector<Result>> Newcomer(const Setting& setting);

}  // namespace paceline::bench
