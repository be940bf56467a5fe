#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "libs/world/random.h"

namespace paceline::bench {

// Draws ranks 0 … ranks − 1 by Zipf's law: rank r with a weight of (r + 1)^−exponent. `ranks` is at least 1.
class Zipf {
 public:
  Zipf(uint64_t ranks, double exponent) : below_(ranks) {
    double sum = 0;
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      below_[rank] = sum += std::pow(static_cast<double>(rank + 1), -exponent);
    }
  }
  uint64_t Draw(world::Random& random) const {
    const double at = world::UnitInterval(random) * below_.back();
    const auto found = std::ranges::upper_bound(below_, at);
    return std::min<uint64_t>(static_cast<uint64_t>(found - below_.begin()), below_.size() - 1);
  }

 private:
  std::vector<double> below_;  // the weights of all ranks up to this one
};

}  // namespace paceline::bench
