#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

// The limits of this machine without Paceline, measured in the same run.
namespace paceline::bench {

// GB/s of messages of `message_bytes` over one TCP connection on loopback, four in flight, each acknowledged.
// Congestion control is the system's, as for any other connection.
absl::StatusOr<double> RawTcpGBs(size_t message_bytes, size_t total_bytes);

// Microseconds from a message of 4 bytes to its answer over TCP on loopback, the median of many.
absl::StatusOr<double> RawTcpRoundTripUs(int rounds);

// GB/s of memcpy over buffers too big for the caches.
double MemcpyGBs();

// A bare table of `dim` values a row in this process, in rows per second: batches of `batch` random keys of
// `rows` resident ones, rule SGD. The rows lie in one store, as those of one segment would.
struct BareTable {
  double updates_per_second = 0;
  double reads_per_second = 0;
};
BareTable MeasureBareTable(uint32_t dim, size_t batch, uint64_t rows);

}  // namespace paceline::bench
