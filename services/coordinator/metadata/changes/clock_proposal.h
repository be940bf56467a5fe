#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline::coordinator {

// Chooses the clock at which something takes effect in every segment while workers go on: rates, a cut, the
// start of a worker. It lies beyond the largest known clock, since clocks advance while the segments are
// told. The distance doubles with each refusal, so that a proposal catches up even with a job of very short
// clocks.
class ClockProposal {
 public:
  uint64_t Beyond(uint64_t known) const { return known + (kMargin << std::min(refusals_, kDoublingsMax)); }
  // A segment was past the clock.
  void Refused() { ++refusals_; }
  void Accepted() { refusals_ = 0; }

 private:
  static constexpr uint64_t kMargin = 2;
  static constexpr int kDoublingsMax = 12;

  int refusals_ = 0;  // since a clock was accepted last
};

}  // namespace paceline::coordinator
