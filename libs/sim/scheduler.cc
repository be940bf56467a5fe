#include "libs/sim/scheduler.h"

#include <algorithm>

namespace paceline::sim {

void Scheduler::At(absl::Time when, Task task) {
  queue_.emplace(std::pair{std::max(when, now_), arrivals_++}, std::move(task));
}

bool Scheduler::RunOne() {
  if (queue_.empty()) return false;
  auto next = queue_.extract(queue_.begin());
  now_ = next.key().first;
  ++steps_;
  next.mapped()();
  return true;
}

}  // namespace paceline::sim
