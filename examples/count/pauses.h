#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace paceline::examples {

// How long the steps of a worker took, to tell what a disturbance cost it.
class Pauses {
 public:
  void Add(absl::Duration step) { steps_.push_back(absl::ToDoubleMilliseconds(step)); }

  // Milliseconds; 0 without steps.
  double median() const;
  double longest() const;
  // Of all steps together, beyond what they would have taken if none were longer than `usual` times the
  // median.
  double added(double usual = 3) const;

  // "steps=100 median_ms=1.2 longest_ms=340.0 added_wait_ms=612.5"
  std::string ToString() const;

 private:
  std::vector<double> steps_;
};

}  // namespace paceline::examples
