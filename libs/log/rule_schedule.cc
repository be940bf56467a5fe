#include "libs/log/rule_schedule.h"

namespace paceline::log {

void RuleSchedule::Change(uint64_t number, const table::Rule& rule, Clock from, uint32_t bound) {
  std::erase_if(periods_, [number](const Period& period) { return period.number == number; });
  periods_.push_back({.number = number, .from = from, .rule = rule, .bound = bound});
}

void RuleSchedule::Forget(Clock clock) {
  periods_.erase(periods_.begin(), periods_.begin() + static_cast<std::ptrdiff_t>(IndexAt(clock)));
}

size_t RuleSchedule::IndexAt(Clock clock) const {
  size_t at = periods_.size() - 1;
  while (at > 0 && periods_[at].from > clock) --at;
  return at;
}

std::optional<Clock> RuleSchedule::last_from() const {
  if (last() == 0) return std::nullopt;
  return periods_.back().from;
}

}  // namespace paceline::log
