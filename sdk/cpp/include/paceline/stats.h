#pragma once

#include <cstdint>
#include <map>

namespace paceline {

// What operations waited for, in seconds, summed over operations: of two that waited side by side both count,
// so the sums may exceed the time that passed. No wait is anonymous: the sum of all causes is all there was.
struct WaitSeconds {
  double staleness = 0;      // pulls: a worker was too far behind
  double queue = 0;          // pulls: within the shard, behind other work or the client's own pushes
  double network = 0;        // pulls: on the way, and in this client's queue behind earlier requests
  double route = 0;          // pulls: no shard could be asked: connecting, taken over, moved, not ready
  double back_pressure = 0;  // pushes that blocked because too much was unacknowledged
  double commit = 0;         // Push, Flush and Finish until the shards had acknowledged

  double total() const { return staleness + queue + network + route + back_pressure + commit; }
};

// Counters since the client was connected.
struct Stats {
  WaitSeconds wait;

  // Observed staleness of pulled rows: how many rows were how many clocks behind this worker when they were
  // read, from a shard or from the cache. Rows, not calls: a pull of 1,000 rows counts 1,000 times. Empty for
  // a client without a clock.
  std::map<uint64_t, uint64_t> staleness_rows;

  uint64_t rows_pushed = 0;  // accepted by Push; committed or not
  uint64_t rows_pulled = 0;  // from shards
  // Rows that Pull found in the client's cache (ClientOptions::cache_bytes_max). Of all rows that were read,
  // rows_from_cache / (rows_from_cache + rows_pulled) cost no round trip.
  uint64_t rows_from_cache = 0;
  // Rows that came because they have changed, for Ssp::refresh. Not among rows_pulled: nobody has read them
  // yet.
  uint64_t rows_refreshed = 0;
  uint64_t bytes_pushed = 0;          // keys and values
  uint64_t bytes_pulled = 0;          // keys and values, from shards
  uint64_t bytes_from_cache = 0;      // values
  uint64_t bytes_unacknowledged = 0;  // pushed and not yet committed: now, not since the start

  // Parts of pushes and pulls that were sent more than once: after a break, a move, a refusal.
  uint64_t retries = 0;
  // Streams to shards that broke.
  uint64_t breaks = 0;
};

}  // namespace paceline
