#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// What the papers on consistency models show, from this system (docs/consistency.md, "Pictures"): matrix
// factorisation and topics by four workers that sleep, one of them longer in turn. How stale values are, how
// fast SSP and ESSP converge, bounded delay that is too short and too long, how much of the time is waiting,
// and ssp:auto beside fixed bounds. Starts a cluster of its own. Call it before any thread is started.
absl::StatusOr<std::vector<Result>> ConsistencyPictures(const Setting& setting);

// Draws the results in `json`, as they were written, to the file `png`. Without `json` it only checks that it
// could: FAILED_PRECONDITION if Python or matplotlib is missing.
absl::Status DrawConsistency(const std::string& json, const std::string& png);

}  // namespace paceline::bench
