#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/workloads.h"

namespace paceline::bench {

// What decisions about a cluster cost as it grows, from 3 shards with 64 segments to 1,000 with 65,536: the
// real cores of a coordinator, a shard and a client's map, in this process, among shards that only answer.
// CPU time includes the encoding of whatever is sent, but no network and no disk. The limit is one encoding
// of the whole map, or its bytes. Each size runs in a process of its own with kSizeBytesMax of memory; one
// that does not fit is left out, and says so. Needs no cluster.
absl::StatusOr<std::vector<Result>> Size(const Setting& setting);

}  // namespace paceline::bench
