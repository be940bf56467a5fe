#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace paceline::sdk {

// The cost of one row, as a moving average of what was measured; the stated one until then. A measurement
// counts as four times the average at most, since a thread may lose its processor while it measures.
class RowCost {
 public:
  // REQUIRES: 0 < least <= ns <= most.
  constexpr RowCost(double ns, double least, double most) : ns_(ns), least_(least), most_(most) {}

  double ns() const { return ns_; }
  // `rows` rows took so long. What took no time, as where time is simulated, says nothing.
  void Add(absl::Duration took, uint64_t rows) {
    if (rows == 0 || took <= absl::ZeroDuration()) return;
    const double sample = absl::ToDoubleNanoseconds(took) / static_cast<double>(rows);
    ns_ += (std::clamp(sample, ns_ / kJump, ns_ * kJump) - ns_) * kWeight;
    ns_ = std::clamp(ns_, least_, most_);
  }

 private:
  static constexpr double kJump = 4;
  static constexpr double kWeight = 1.0 / 8;
  double ns_;
  double least_;
  double most_;
};

// What the rows of one table cost with the cache, and without it.
struct RowCosts {
  RowCost look{20, 2, 500};        // to look a row up, and copy it if it is there
  RowCost keep{40, 5, 1000};       // to keep a row that was fetched
  RowCost push{25, 2, 500};        // to look for a row that is pushed, and to change it
  RowCost fetch{400, 50, 10'000};  // to fetch a row: a pull's time by its rows, and by the pulls under way
};

}  // namespace paceline::sdk
