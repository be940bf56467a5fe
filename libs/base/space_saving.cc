#include "libs/base/space_saving.h"

#include <algorithm>
#include <tuple>

namespace paceline {

void SpaceSaving::Add(Key key, double weight) {
  total_ += weight;
  const auto known = std::ranges::find(counters_, key, &Counter::key);
  if (known != counters_.end()) {
    known->weight += weight;
  } else if (counters_.size() < counters_max_) {
    counters_.push_back({.key = key, .weight = weight, .error = 0});
  } else {
    Counter& lightest = *std::ranges::min_element(counters_, {}, &Counter::weight);
    lightest = {.key = key, .weight = lightest.weight + weight, .error = lightest.weight};
  }
}

void SpaceSaving::Scale(double factor) {
  total_ *= factor;
  for (Counter& counter : counters_) {
    counter.weight *= factor;
    counter.error *= factor;
  }
}

std::vector<SpaceSaving::Counter> SpaceSaving::Heaviest(size_t count) const {
  std::vector<Counter> sorted = counters_;
  std::ranges::sort(sorted, {}, [](const Counter& one) { return std::tuple(-one.weight, one.key); });
  if (sorted.size() > count) sorted.resize(count);
  return sorted;
}

}  // namespace paceline
