#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

namespace paceline::bench {

// A shard with `setting.gigabytes` of rows and a disk is killed and started again: the time until a push to
// every segment is acknowledged as durable and rows have the values they had. The limit is to read all its
// files once from end to end, as dd does; both with the files in the page cache, and without. Starts a
// cluster of its own.
absl::StatusOr<std::vector<Result>> Restart(const Setting& setting);

}  // namespace paceline::bench
