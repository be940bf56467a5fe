#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/bugs.h"
#include "tests/sim/cluster.h"

namespace paceline::sim {

// A seed must reach these figures for its success to mean something.
inline constexpr uint64_t kPartsMin = 1000;
inline constexpr uint64_t kFaultsMin = 5;

struct FailedSeed {
  uint64_t seed = 0;
  std::vector<Violation> violations;
};

// The result of a batch of seeds.
struct BatchOutcome {
  uint64_t seeds = 0;
  uint64_t full_seeds = 0;  // with enough parts and faults
  uint64_t parts = 0;
  uint64_t steps = 0;
  absl::Duration virtual_time;
  std::vector<FailedSeed> failed;
  Marks marks;
  std::map<std::string, uint64_t> faults_by_kind;

  // Marks, and kinds of faults, that no seed reached.
  std::vector<std::string> MarksMissed() const;
  std::vector<std::string> FaultsMissed() const;
};

// Runs one seed with `bug` planted.
Outcome RunSeed(uint64_t seed, Bug bug = Bug::kNone,
                const std::function<void(const std::string&)>& trace = nullptr);

// Runs seeds from `first` to `last`, both included; with `disks` only those that have disks. `on_seed` is
// called with each result and may stop the batch by returning false.
BatchOutcome RunBatch(uint64_t first, uint64_t last, Bug bug,
                      const std::function<bool(uint64_t seed, const Outcome&)>& on_seed, bool disks = false);

}  // namespace paceline::sim
