#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"
#include "bench/workloads.h"

namespace paceline::bench::peers {

// More shards and more clients than one on the same machine, in turns in one run: two shards beside one, with
// one client; and 2, 4 and 8 clients of one shard, each a process, beside the best rate of fewer. Eight
// requests outstanding for each client; a client's batches are its own. DATA_LOSS: rows are wrong at the end.
absl::StatusOr<std::vector<Result>> Several(const Setting& setting);

}  // namespace paceline::bench::peers
