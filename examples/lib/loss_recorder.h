#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "examples/lib/worker_report.h"

namespace paceline::examples {

// A worker's losses by piece of the run. All workers of a run cut alike: each pass into equally many pieces,
// of at least 32 and at most 256 in all, if there are as many steps.
class LossRecorder {
 public:
  // `steps` of the whole run, of `passes` passes; both at least 1.
  LossRecorder(size_t steps, size_t passes);

  // Of `step`, below steps: a clock of a fixed split, a batch of all by a work queue. It ended at `now`, in
  // nanoseconds, and with it the worker's clock `clock`.
  void Add(size_t step, uint64_t clock, uint64_t examples, double loss_sum, int64_t now);

  std::vector<LossPiece> Take() && { return std::move(pieces_); }

 private:
  size_t steps_;
  std::vector<LossPiece> pieces_;
};

}  // namespace paceline::examples
