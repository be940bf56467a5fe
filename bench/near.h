#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

// Streams over shared memory beside our own over TCP, in turns, on the same cluster. REQUIRES: the setting
// has a socket folder. UNAVAILABLE: a shard has no socket there.
namespace paceline::bench {

// 64 MB of a ranged table pushed and pulled whole; the limit is the same over TCP.
absl::StatusOr<std::vector<Result>> DenseNear(const Setting& setting);
// Batches of 1,000 rows of 16 values, of a million: one at a time, and all of a round at once; likewise.
absl::StatusOr<std::vector<Result>> SparseNear(const Setting& setting);
// One row, one request outstanding; the limit is a round trip between two threads that wake each other by
// futex.
absl::StatusOr<std::vector<Result>> LatencyNear(const Setting& setting);

// Appends what `near` measures to `results`, if the setting has a socket folder and all went well so far.
absl::StatusOr<std::vector<Result>> WithNear(absl::StatusOr<std::vector<Result>> results,
                                             const Setting& setting,
                                             absl::StatusOr<std::vector<Result>> (*near)(const Setting&));

}  // namespace paceline::bench
