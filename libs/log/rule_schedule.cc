#include "libs/log/rule_schedule.h"

namespace paceline::log {

void RuleSchedule::Change(uint64_t number, const table::Rule& rule, Clock from) {
  std::erase_if(stages_, [number](const Stage& stage) { return stage.number == number; });
  stages_.push_back({.number = number, .from = from, .rule = rule});
}

void RuleSchedule::Forget(Clock clock) {
  stages_.erase(stages_.begin(), stages_.begin() + static_cast<std::ptrdiff_t>(IndexAt(clock)));
}

size_t RuleSchedule::IndexAt(Clock clock) const {
  size_t at = stages_.size() - 1;
  while (at > 0 && stages_[at].from > clock) --at;
  return at;
}

std::optional<Clock> RuleSchedule::last_from() const {
  if (last() == 0) return std::nullopt;
  return stages_.back().from;
}

}  // namespace paceline::log
