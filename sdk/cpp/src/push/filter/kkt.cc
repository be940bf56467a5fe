#include "paceline/kkt.h"

#include <algorithm>
#include <cmath>

namespace paceline {

float KktFilter::Due(uint64_t key, float gradient) {
  if (!options_.sums) return gradient;
  const auto kept = kept_.find(key);
  if (kept == kept_.end()) return gradient;
  const float due = gradient + kept->second;
  kept_.erase(kept);
  return due;
}

// Written so that a NaN is sent.
bool KktFilter::LeavesOut(uint64_t key, float weight, float due) {
  if (reset_ || weight != 0 || !(std::abs(due) <= options_.lambda - options_.slack)) return false;
  if (!options_.sums) return true;
  if (kept_.size() >= options_.kept_max) return false;
  kept_.emplace(key, due);
  return true;
}

void KktFilter::Filter(absl::Span<const float> weights, std::vector<uint64_t>* keys,
                       std::vector<float>* gradients) {
  size_t sent = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t key = (*keys)[i];
    const float due = Due(key, (*gradients)[i]);
    if (LeavesOut(key, weights[i], due)) continue;
    (*keys)[sent] = key;
    (*gradients)[sent] = due;
    ++sent;
  }
  given_ += weights.size();
  left_out_ += weights.size() - sent;
  keys->resize(sent);
  gradients->resize(sent);
}

void KktFilter::Reset(std::vector<uint64_t>* keys, std::vector<float>* gradients) {
  reset_ = true;
  keys->clear();
  gradients->clear();
  for (const auto& [key, gradient] : kept_) keys->push_back(key);
  std::ranges::sort(*keys);
  for (const uint64_t key : *keys) gradients->push_back(kept_.at(key));
  kept_.clear();
}

}  // namespace paceline
