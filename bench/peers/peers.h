#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

namespace paceline::bench::peers {

// This project beside ps-lite (`setting.ps_lite`), Redis, raw TCP and memcpy: the same rows, keys and
// batches, one server process and one client process on the loopback interface, taking turns in one run. Each
// Result has our figure as value and the other's as limit. Without ps-lite's sources, or a redis-server,
// their results are skipped and do not pass. FAILED_PRECONDITION: this process has a real-time priority.
// DATA_LOSS: a store's values are wrong at the end.
absl::StatusOr<std::vector<Result>> Peers(const Setting& setting);

// A table of the ratios to each of them, and what was skipped.
void PrintPeers(const std::vector<Result>& results);

}  // namespace paceline::bench::peers
