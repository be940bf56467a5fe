#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/lib/worker_report.h"

namespace paceline::examples {

// A point of a loss curve: the mean loss of the examples since the point before.
struct LossPoint {
  uint64_t examples = 0;  // so far
  uint64_t clock = 0;     // so far; 0 in one process, which has none
  double seconds = 0;     // since the training began
  double loss = 0;
};

// The workers' joint totals of a run.
struct Totals {
  uint32_t started = 0;  // workers that train, or have
  uint64_t examples = 0;
  double loss_sum = 0;
  uint64_t rows_pushed = 0;
  uint64_t rows_pulled = 0;
  uint64_t bytes_pulled = 0;
  uint64_t rows_from_cache = 0;
  uint64_t retries = 0;
  PushFilterStats push_filter;                    // now held back: not summed
  std::map<std::string, FilterUse> link_filters;  // by the filter's name, both directions together
  KktCounts kkt;
  WaitSeconds wait;
  std::map<uint64_t, uint64_t> staleness_rows;
  double seconds = 0;  // from the first worker's start of training to the last one's Finish; 0 before
  // The workers' own, together: of their training, and of that in calls of the SDK; 0 before the end.
  double worker_seconds = 0;
  double blocked_seconds = 0;
  BlockedSeconds blocked;
  std::vector<LossPoint> curve;  // empty before the end
  uint64_t clock_all_have = 0;   // the least of their clocks
  // Of --count-work: how many examples were trained more than once, each time more counted.
  std::optional<uint64_t> trained_again;
};
Totals Sum(absl::Span<const WorkerReport> reports);

// Over rows: 0 when there are none.
double MeanStaleness(const std::map<uint64_t, uint64_t>& staleness_rows);
uint64_t MaxStaleness(const std::map<uint64_t, uint64_t>& staleness_rows);

}  // namespace paceline::examples
