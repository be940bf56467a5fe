#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

// The cost of safety: the sparse workload on clusters of three shards that the benchmark starts, each setting
// in turn and three times. Medians. GB are those of the values pushed. `setting.coordinator` is not used.
namespace paceline::bench {

// 0, 1 and 2 replicas, in memory, as ratios to none.
absl::StatusOr<std::vector<Result>> WithReplicas(const Setting& setting);

// Without disks, with disks written behind, and with acknowledgements of what is on them (`--acks durable`),
// of 0 and of 1 replicas, as ratios to no disks; and so once more with pushes of 64 MB. What is durable is
// beside plain files as well, one a shard, which take the same bytes with a sync after as many.
absl::StatusOr<std::vector<Result>> WithDisks(const Setting& setting);

}  // namespace paceline::bench
