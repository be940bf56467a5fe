#pragma once

#include "absl/status/statusor.h"
#include "bench/soak/soak.h"

namespace paceline::bench {

// Shards are stopped in order and started again, one after the other, while workers train: everything that
// each is primary of is handed over first. Measures what each of the two steps, and as long a time in peace,
// costs the worst worker.
absl::StatusOr<SoakOutcome> HandOvers(const SoakOptions& options);

}  // namespace paceline::bench
