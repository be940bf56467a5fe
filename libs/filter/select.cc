#include "libs/filter/select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace paceline::filter {

float MagnitudeOf(std::span<const float> row) {
  float magnitude = 0;
  for (const float value : row) {
    if (std::isnan(value)) return value;
    magnitude = std::max(magnitude, std::fabs(value));
  }
  return magnitude;
}

uint64_t TopK::Count(uint64_t rows) const {
  return std::min(rows, static_cast<uint64_t>(std::ceil(share_ * static_cast<double>(rows))));
}

std::vector<bool> TopK::Choose(std::span<const float> magnitudes) const {
  const uint64_t count = Count(magnitudes.size());
  std::vector<uint32_t> places(magnitudes.size());
  std::iota(places.begin(), places.end(), 0);
  const auto size = [&](uint32_t place) {
    return std::isnan(magnitudes[place]) ? std::numeric_limits<float>::infinity() : magnitudes[place];
  };
  std::nth_element(
      places.begin(), places.begin() + static_cast<ptrdiff_t>(count), places.end(),
      [&](uint32_t a, uint32_t b) { return size(a) > size(b) || (size(a) == size(b) && a < b); });
  std::vector<bool> sent(magnitudes.size(), false);
  for (uint64_t i = 0; i < count; ++i) sent[places[i]] = true;
  return sent;
}

bool Significant::Sends(float change, float value, uint64_t clock) const {
  double threshold = options_.threshold;
  if (options_.decays) threshold /= std::sqrt(static_cast<double>(clock) + 1);
  if (options_.relative) threshold *= value;
  if (!std::isfinite(change) || !std::isfinite(threshold)) return true;
  return threshold > 0 ? change >= threshold : change > 0;
}

}  // namespace paceline::filter
