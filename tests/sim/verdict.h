#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libs/sim/scheduler.h"

namespace paceline::sim {

// An invariant of docs/simulation.md that did not hold.
struct Violation {
  std::string invariant;
  std::string what;
  uint64_t step = 0;
  absl::Time when;
};

// The findings of a run.
class Verdict {
 public:
  explicit Verdict(const Scheduler& scheduler) : scheduler_(scheduler) {}

  // Keeps the first violations only: their consequences explain nothing.
  void Violated(std::string invariant, std::string what) {
    constexpr size_t kMax = 8;
    if (violations_.size() >= kMax) return;
    violations_.push_back({std::move(invariant), std::move(what), scheduler_.steps(), scheduler_.Now()});
  }
  bool ok() const { return violations_.empty(); }
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  const Scheduler& scheduler_;
  std::vector<Violation> violations_;
};

}  // namespace paceline::sim
