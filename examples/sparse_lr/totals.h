#pragma once

#include <cstdint>
#include <map>

#include "absl/types/span.h"
#include "examples/sparse_lr/worker_report.h"

namespace paceline::examples {

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
  WaitSeconds wait;
  std::map<uint64_t, uint64_t> staleness_rows;
  double seconds = 0;  // from the first worker's start of training to the last one's Finish; 0 before
  uint64_t clock_all_have = 0;  // the least of their clocks
};
Totals Sum(absl::Span<const WorkerReport> reports);

// Over rows: 0 when there are none.
double MeanStaleness(const std::map<uint64_t, uint64_t>& staleness_rows);
uint64_t MaxStaleness(const std::map<uint64_t, uint64_t>& staleness_rows);

}  // namespace paceline::examples
