#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libs/world/random.h"

// Which rows of a push are sent now. What is not sent is kept (Residuals), so that these decide by all that
// is due to a row.
namespace paceline::filter {

// A row's size: its largest absolute value. NaN: one of its values is.
float MagnitudeOf(std::span<const float> row);

// The largest rows of a push (Aji and Heafield, EMNLP 2017).
class TopK {
 public:
  // REQUIRES: 0 < share <= 1.
  explicit TopK(double share) : share_(share) {}

  // So many rows of a push of `rows` are sent: the share, rounded up.
  uint64_t Count(uint64_t rows) const;

  // Which rows are sent, by place; of equal ones the first. What is not finite counts as larger than
  // anything. O(rows).
  std::vector<bool> Choose(std::span<const float> magnitudes) const;

 private:
  const double share_;
};

// Each row waits with a probability (Li et al., OSDI 2014, section 5.1: random skip).
class RandomSkip {
 public:
  // REQUIRES: 0 <= probability < 1.
  explicit RandomSkip(double probability) : probability_(probability) {}

  bool Sends(world::Random& random) const { return !world::Chance(random, probability_); }

 private:
  const double probability_;
};

// A row is sent once what is due to it is a significant change (Li et al., OSDI 2014, section 5.1).
class Significant {
 public:
  struct Options {
    double threshold = 0;   // at least so large is a change that is sent; above 0
    bool relative = false;  // … as a share of the row's value
    bool decays = false;    // at clock t, counted from 1, the threshold over the root of t
  };
  explicit Significant(const Options& options) : options_(options) {}

  // `change` and `value` are magnitudes of what is due and of the row as its reader knows it; `clock` counts
  // from 0. A row whose value is 0 changes significantly by whatever is not 0. What is not finite is
  // significant.
  bool Sends(float change, float value, uint64_t clock) const;

 private:
  const Options options_;
};

}  // namespace paceline::filter
