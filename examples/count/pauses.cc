#include "examples/count/pauses.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace paceline::examples {

double Pauses::median() const {
  if (steps_.empty()) return 0;
  std::vector<double> steps = steps_;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

double Pauses::longest() const {
  return steps_.empty() ? 0 : *std::max_element(steps_.begin(), steps_.end());
}

double Pauses::added(double usual) const {
  const double bound = usual * median();
  double sum = 0;
  for (const double step : steps_) sum += std::max(0.0, step - bound);
  return sum;
}

std::string Pauses::ToString() const {
  return absl::StrFormat("steps=%d median_ms=%.1f longest_ms=%.1f added_wait_ms=%.1f", steps_.size(),
                         median(), longest(), added());
}

}  // namespace paceline::examples
