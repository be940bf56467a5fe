#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/feature_level.h"
#include "libs/ring/placement.h"
#include "libs/world/random.h"

namespace paceline::coordinator {

class SnapshotFiles;
class WantedShards;

// The limits of the coordinator. What exceeds one is refused RESOURCE_EXHAUSTED (a count) or INVALID_ARGUMENT
// (a size), naming the limit; existing objects are not affected.
struct Limits {
  size_t shards = 1024;
  size_t jobs = 1024;
  size_t tables = 4096;            // of all jobs
  size_t sessions = 4096;          // not yet closed, of all jobs
  size_t session_records = 65536;  // including closed ones that came after the oldest open one
  uint32_t ranks = 4096;           // ranks and workers of a job
  size_t work_queues = 64;         // of a job
  size_t requests = 16384;         // waiting for an answer
  size_t watchers = 16384;         // of the map
  size_t calls_per_shard = 64;     // calls of the coordinator under way at one shard
  uint32_t replicas = 8;           // of a segment
  size_t name_bytes = 128;         // of a job, table or shard
  size_t text_bytes = 512;         // of a client's description, a reason, an address, a zone
};

// When segments move by load (Loads).
struct ByLoad {
  bool on = false;
  // Some shard has so many means of all shards' traffic, or memory, for so long.
  double threshold = 1.15;
  absl::Duration lasts = absl::Seconds(5);
  // A segment that has moved does not move again for so long; and a coordinator that begins to lead, which
  // does not know what has moved, moves none for so long.
  absl::Duration rests = absl::Seconds(20);
  // With less in the mean shard, rows a second and bytes, none of it is worth a move.
  uint64_t rows_per_s_min = 1000;
  uint64_t bytes_min = uint64_t{64} << 20;
};

struct Options {
  uint32_t shards = 1;  // shards that must have joined before the first map is made
  // Replicas wanted of each segment, on other shards than its primary: takes replicas + 1 shards. With fewer,
  // segments get as many as there are other shards, and more as shards join.
  uint32_t replicas = 0;
  int ring_bits = ring::kRingBitsDefault;  // the ring has 2^ring_bits segments, for the cluster's life
  uint64_t new_cluster =
      0;  // the id of the cluster if this start creates it: random, so that no two have one
  // The source of sessions' secrets: nobody may be able to guess its output. Must outlive the coordinator.
  world::Random* random = nullptr;
  // How long the others wait for a silent leader before one of them leads. 0: this coordinator owns the
  // store.
  absl::Duration leader_lease = absl::ZeroDuration();
  absl::Duration session_timeout = absl::Seconds(10);  // a session silent for longer is evicted
  absl::Duration keep_alive = absl::Seconds(1);        // the interval of signs of life that clients are told
  absl::Duration shard_silent = absl::Seconds(3);      // a shard silent for longer does not count as alive
  absl::Duration request_timeout = absl::Seconds(30);  // for requests that state none
  // If it did not run for longer than this the coordinator cannot tell which sessions were silent: it counts
  // silence anew.
  absl::Duration pause = absl::Seconds(1);
  // How long a promotion waits for replicas' answers to a fence; later ones are left out of the new epoch.
  absl::Duration fence_wait = absl::Milliseconds(150);
  uint32_t moves_per_shard = 1;  // recruits, and the hand-overs of a plan, under way at a time per shard
  ByLoad by_load = {};
  // The files of snapshots' manifests; must outlive the coordinator. nullptr: there are no snapshots.
  SnapshotFiles* snapshots = nullptr;
  // How many shards there are to be; must outlive the coordinator. nullptr: nobody says.
  WantedShards* wanted_shards = nullptr;
  Limits limits = {};
};

// kInvalidArgument names the wrong option.
absl::Status Validate(const Options& options);

}  // namespace paceline::coordinator
