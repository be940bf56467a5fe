#include "services/shard/executor.h"

namespace paceline::shard {

void Executor::Run(Task task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    if (owned_) return;
    owned_ = true;
  }
  std::deque<Task> group;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) {
        owned_ = false;
        return;
      }
      group.swap(queue_);
    }
    for (Task& next : group) {
      next();
      next = nullptr;  // what a task holds is let go at once, not with its group
    }
    group.clear();
  }
}

size_t Executor::depth() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

}  // namespace paceline::shard
