#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

// What this machine can do without Paceline, measured beside it.
namespace paceline::bench {

// GB/s of messages of `message_bytes` over one TCP connection on loopback, four in flight, each acknowledged.
absl::StatusOr<double> RawTcpGBs(size_t message_bytes, size_t total_bytes);

// Microseconds from a message of 4 bytes to its answer over TCP on loopback, the median of many.
absl::StatusOr<double> RawTcpRoundTripUs(int rounds);

// GB/s of memcpy over buffers too big for the caches.
double MemcpyGBs();

// Updates per second of a bare table of `dim` values a row, in this process: batches of `batch` random keys
// of `rows` resident ones, rule SGD.
double BareTableUpdatesPerSecond(uint32_t dim, size_t batch, uint64_t rows);

}  // namespace paceline::bench
