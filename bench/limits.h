#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"

// The limits of this machine without Paceline, measured in the same run.
namespace paceline::bench {

// GB/s of messages of `message_bytes` over one TCP connection on loopback, four in flight, each acknowledged.
// Congestion control is the system's, as for any other connection.
absl::StatusOr<double> RawTcpGBs(size_t message_bytes, size_t total_bytes);

// Microseconds from a message of 4 bytes to its answer over TCP on loopback, the median of many.
absl::StatusOr<double> RawTcpRoundTripUs(int rounds);

// Microseconds until two threads have woken each other by futex, the median of many: what sleeping and waking
// cost where nothing is sent.
double FutexRoundTripUs(int rounds);

// GB/s of memcpy over buffers too big for the caches.
double MemcpyGBs();

// A bare table in this process: rule SGD, `rows` resident rows of `dim` values in one store, as those of one
// segment would lie. For one thread.
class BareTable {
 public:
  BareTable(uint32_t dim, uint64_t rows);
  ~BareTable();

  // Updates, or reads, the rows of all batches, one after the other.
  Cost Update(const std::vector<std::vector<uint64_t>>& batches);
  Cost Read(const std::vector<std::vector<uint64_t>>& batches);

 private:
  class Rows;
  std::unique_ptr<Rows> rows_;
};

}  // namespace paceline::bench
