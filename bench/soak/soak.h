#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/soak/faults.h"
#include "nlohmann/json.hpp"

namespace paceline::bench {

// Real processes, killed and stopped while they work, and a proof of what became of it.
struct SoakOptions {
  int shards = 3;
  int replicas = 1;
  int workers = 3;
  double seconds = 60;
  std::vector<Target> targets = {Target::kShard, Target::kCoordinator};  // empty: nobody
  std::string model = "ssp";                                             // of the counting table
  std::string acks = "replicated";                                       // or "durable", with disks
  bool lose_power = false;  // a killed process loses its unsynced bytes
  double rate = 100;        // pushes a second and worker
  uint64_t seed = 1;
  int kills = 20;   // recovery only: how many
  int rounds = 20;  // handover only: how many
  std::string
      folder;  // where logs and history files are; empty: a temporary one, removed unless something is wrong
};

// The result of a run. `ok`: nothing was lost, doubled or read wrong.
struct SoakOutcome {
  bool ok = false;
  std::string text;  // for people
  nlohmann::json json;
};

// Workers add integers to a counting table, one process after another is killed or stopped, and at the end
// all rows are read. The sum must be what was acknowledged, and at most what was not beside it; the record
// files must hold no violation. An error if the run could not be made, or somebody waited for ever.
absl::StatusOr<SoakOutcome> Soak(const SoakOptions& options);

// Kills one shard after another under light load, and measures each time how long it takes until pushes to
// every segment of which it was primary are acknowledged again.
absl::StatusOr<SoakOutcome> Recovery(const SoakOptions& options);

}  // namespace paceline::bench
