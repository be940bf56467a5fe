#include "examples/lib/loss_recorder.h"

#include <algorithm>

namespace paceline::examples {
namespace {

constexpr size_t kLeast = 32, kMost = 256;

}  // namespace

LossRecorder::LossRecorder(size_t steps, size_t passes)
    : steps_(steps), pieces_(std::min({steps, kMost, passes * ((kLeast + passes - 1) / passes)})) {}

void LossRecorder::Add(size_t step, uint64_t clock, uint64_t examples, double loss_sum, int64_t now) {
  LossPiece& piece = pieces_[step * pieces_.size() / steps_];
  piece.examples += examples;
  piece.loss_sum += loss_sum;
  piece.clock = std::max(piece.clock, clock + 1);
  piece.ended = now;
}

}  // namespace paceline::examples
