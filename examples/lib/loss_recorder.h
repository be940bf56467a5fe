#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "examples/lib/worker_report.h"

namespace paceline::examples {

// A worker's losses by piece of its clocks. All workers of a run cut alike: each pass into equally many
// pieces, of at least 32 and at most 256 in all, if there are as many clocks.
class LossRecorder {
 public:
  // `clocks` of the whole run, of `passes` passes; both at least 1.
  LossRecorder(size_t clocks, size_t passes);

  // Of `clock`, below clocks, which ended at `now`, in nanoseconds.
  void Add(size_t clock, uint64_t examples, double loss_sum, int64_t now);

  std::vector<LossPiece> Take() && { return std::move(pieces_); }

 private:
  size_t clocks_;
  std::vector<LossPiece> pieces_;
};

}  // namespace paceline::examples
