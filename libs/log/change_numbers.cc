#include "libs/log/change_numbers.h"

#include <algorithm>

namespace paceline::log {

bool ChangeNumbers::IsLate(const Subject& subject, uint64_t number) const {
  const auto last = last_.find(subject);
  return number <= floor_ || (last != last_.end() && number < last->second);
}

bool ChangeNumbers::HasBegun(const Subject& subject, uint64_t number) const {
  const auto last = last_.find(subject);
  return last != last_.end() && last->second == number;
}

void ChangeNumbers::Begin(const BeginChange& change) {
  if (change.number != 0) last_[change.subject] = change.number;
  if (change.floor <= floor_) return;
  floor_ = change.floor;
  std::erase_if(last_, [this](const auto& entry) { return entry.second <= floor_; });
}

uint64_t ChangeNumbers::Highest() const {
  uint64_t highest = floor_;
  for (const auto& [subject, number] : last_) highest = std::max(highest, number);
  return highest;
}

}  // namespace paceline::log
