#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"

// What Paceline does, over a real cluster on loopback through the SDK.
namespace paceline::bench {

// 64 MB of a ranged table pushed and pulled whole; the limit is raw TCP with messages of 1 MB.
absl::StatusOr<std::vector<Result>> Dense(const std::string& coordinator);

// Batches of 1,000 random rows of 16 values, of a million; the limit is the bare table in this process.
absl::StatusOr<std::vector<Result>> Sparse(const std::string& coordinator);

// One row, one request outstanding; the limit is a round trip of 4 bytes over TCP.
absl::StatusOr<std::vector<Result>> Latency(const std::string& coordinator);

}  // namespace paceline::bench
