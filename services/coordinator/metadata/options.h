#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/ring/placement.h"

namespace paceline::coordinator {

// The protocol this release speaks. A client or shard of a newer level is answered with this one; level 0 is
// refused.
inline constexpr uint32_t kFeatureLevel = 1;

// How much of everything there may be. What exceeds a limit is refused RESOURCE_EXHAUSTED (a count) or
// INVALID_ARGUMENT (a size), naming the limit; nothing that exists suffers.
struct Limits {
  size_t shards = 1024;
  size_t jobs = 1024;
  size_t tables = 4096;            // of all jobs
  size_t sessions = 4096;          // not yet closed, of all jobs
  size_t session_records = 65536;  // with the closed ones that came after the oldest open one
  uint32_t ranks = 4096;           // ranks and workers of a job
  size_t requests = 16384;         // waiting for an answer
  size_t watchers = 16384;         // of the map
  size_t calls_per_shard = 64;     // of ours, under way at one shard
  size_t name_bytes = 128;         // of a job, table or shard
  size_t text_bytes = 512;         // of a client's description, a reason, an address, a zone
};

struct Options {
  uint32_t shards = 1;                     // that must have joined before the first map is made
  int ring_bits = ring::kRingBitsDefault;  // the ring has 2^ring_bits segments, for the cluster's life
  absl::Duration session_timeout = absl::Seconds(10);  // a session silent for longer is evicted
  absl::Duration keep_alive = absl::Seconds(1);        // what clients are told to keep
  absl::Duration shard_silent = absl::Seconds(3);      // a shard silent for longer is not called alive
  absl::Duration request_timeout = absl::Seconds(30);  // of requests that state none
  // Not run for longer than this, the coordinator cannot say that a session was silent: it starts afresh.
  absl::Duration pause = absl::Seconds(1);
  Limits limits = {};
};

// kInvalidArgument naming the option.
absl::Status Validate(const Options& options);

}  // namespace paceline::coordinator
