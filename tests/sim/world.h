#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/log/change_log.h"
#include "libs/sim/calls.h"
#include "libs/sim/history_hash.h"
#include "libs/sim/marks.h"
#include "libs/sim/scheduler.h"
#include "libs/sim/stream.h"
#include "libs/world/random.h"
#include "tests/sim/invariants.h"
#include "tests/sim/truth.h"
#include "tests/sim/verdict.h"
#include "tests/sim/work_truth.h"

namespace paceline::sim {

// State that all pieces of one simulated cluster share. `random` is the source of all randomness.
struct World {
  World(uint64_t seed, uint32_t segments) : random(seed), invariants(verdict, truth, marks, segments) {
    network.partitions = &partitions;
    calls.partitions = &partitions;
  }

  world::SplitMix64 random;
  Scheduler scheduler;
  SimClock clock{scheduler};
  HistoryHash history;
  Marks marks;
  Verdict verdict{scheduler};
  Truth truth;
  Invariants invariants;
  WorkTruth work{verdict, truth, invariants, marks};
  Partitions partitions;
  Network network{scheduler, random, history};
  Calls calls{scheduler, random, history, marks};

  size_t changes_max = log::ChangeLog::kRowsMax;  // shards' ShardOptions
  bool reduces = false;                           // as the plan's
  bool prioritised = false;                       // likewise
  bool filtered = false;                          // likewise
  bool lends = false;                             // likewise

  std::function<void(const std::string&)> trace;

  absl::Time Now() const { return scheduler.Now(); }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + (high - low) * world::UnitInterval(random);
  }
  // Reports what happens, if the run is watched.
  void Trace(const std::string& what) const {
    if (trace) trace(absl::StrCat(absl::FormatDuration(Now() - Scheduler().Now()), " ", what));
  }
  bool Chance(double p) { return world::Chance(random, p); }
  uint64_t Below(uint64_t n) { return world::Uniform(random, n); }
};

}  // namespace paceline::sim
