#include "libs/filter/residuals.h"

#include <algorithm>
#include <cmath>

namespace paceline::filter {
namespace {

constexpr uint64_t kBesideValues = 32;  // key, slot, and room that the table of slots has left

}  // namespace

Residuals::Residuals(uint32_t dim, uint64_t bytes_max)
    : dim_(dim),
      row_bytes_(uint64_t{dim} * sizeof(float) + kBesideValues),
      rows_max_(std::min<uint64_t>(bytes_max / row_bytes_, UINT32_MAX)) {}

bool Residuals::Add(std::span<const float> from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    if (!std::isfinite(from[i] + to[i])) return false;
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  return true;
}

void Residuals::AddKept(uint64_t key, std::span<float> row) {
  const auto it = slots_.find(key);
  if (it == slots_.end() || !Add(At(it->second), row)) return;
  free_.push_back(it->second);
  slots_.erase(it);
}

bool Residuals::Keep(uint64_t key, std::span<const float> row) {
  if (const auto it = slots_.find(key); it != slots_.end()) return Add(row, At(it->second));
  if (slots_.size() >= rows_max_) return false;
  if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) return false;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(values_.size() / dim_));
    values_.resize(values_.size() + dim_);
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  std::ranges::copy(row, At(slot).begin());
  slots_.emplace(key, slot);
  return true;
}

void Residuals::TakeAll(absl::FunctionRef<void(uint64_t key, std::span<const float> row)> take) {
  std::vector<uint64_t> keys;
  keys.reserve(slots_.size());
  for (const auto& [key, slot] : slots_) keys.push_back(key);
  std::ranges::sort(keys);
  for (const uint64_t key : keys) take(key, At(slots_.at(key)));
  slots_.clear();
  free_.clear();
  values_ = {};
}

}  // namespace paceline::filter
