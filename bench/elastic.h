#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// A counting job in an open loop, a tenth of it pushes, at 30 % of what the cluster can do, while the cluster
// grows from 3 shards to 6, begins to shrink to 3 and is told not to, and shrinks to 3: once with disks and
// without copies, once with a copy of each segment. Pulls in these windows are compared with those in quiet
// ones before each, which come in turn. In the first round of each kind of cluster a shard is killed amid
// each move, and nothing is timed.
//
// Each kind of cluster has a bound of time, after which it is measured no more rounds; params tell how many
// there were. Then Newcomer. `setting.only` leaves one of the two out.
//
// An error of any request, or a row that does not have exactly what was pushed, is an error. Starts clusters
// of its own.
absl::StatusOr<std::vector<Result>> Elastic(const Setting& setting);

}  // namespace paceline::bench
