#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// Rules that users write beside the same rules built in: nanoseconds to update a row of a table in this
// process, resident in memory, in batches of 1,000 random rows. Needs no cluster.
absl::StatusOr<std::vector<Result>> Rules(const Setting& setting);

}  // namespace paceline::bench
