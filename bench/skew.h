#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

namespace paceline::bench {

// One client pushes and pulls rows of a million by Zipf's law with exponent 1.1, for `setting.seconds`,
// without a cache; if there is no `setting.coordinator`, on four shards with 64 segments, no replicas and
// --balance-load, which are started here. How uneven shards are: the most rows a second of one of them in
// means of all, as their own counters say, in stretches of five seconds. Beside it the 1.25 means that it
// should be below within a minute.
absl::StatusOr<std::vector<Result>> Skew(const Setting& setting);

}  // namespace paceline::bench
