#include "services/shard/executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "libs/world/soon.h"

namespace paceline::shard {

void Executor::Run(Task task) {
  if (TakesToken(std::move(task))) Drain();
}

void Executor::RunBeside(Task task) {
  if (!TakesToken(std::move(task))) return;
  helper_ != nullptr ? helper_->Take(*this) : Drain();
}

void Executor::TakeBack() {
  if (helper_ != nullptr && helper_->TakeBack(*this)) Drain();
}

bool Executor::TakesToken(Task task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  return !std::exchange(owned_, true);
}

void Executor::RunLong(Task task) {
  {
    const std::lock_guard lock(mutex_);
    long_.push_back(std::move(task));
    if (std::exchange(long_queued_, true)) return;
  }
  Run([this] { RunNextLong(); });
}

void Executor::RunNextLong() {
  Task task;
  {
    const std::lock_guard lock(mutex_);
    task = std::move(long_.front());
    long_.pop_front();
  }
  task();
  task = nullptr;
  {
    const std::lock_guard lock(mutex_);
    long_queued_ = !long_.empty();
    if (!long_queued_) return;
  }
  Run([this] { RunNextLong(); });
}

void Executor::Drain() {
  if (clock_ == nullptr) {
    if (RunTurn()) helper_->Take(*this);
    return;
  }
  const absl::Time began = clock_->Now();
  const bool more = RunTurn();
  busy_ns_.fetch_add(absl::ToInt64Nanoseconds(clock_->Now() - began), std::memory_order_relaxed);
  if (more) helper_->Take(*this);
}

bool Executor::RunTurn() {
  size_t left = kTurn;
  std::deque<Task> group;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) {
        owned_ = false;
        return false;
      }
      if (helper_ == nullptr || queue_.size() <= left) {
        group.swap(queue_);
      } else {
        const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(left);
        group.assign(std::move_iterator(queue_.begin()), std::move_iterator(end));
        queue_.erase(queue_.begin(), end);
      }
    }
    if (group.empty()) return true;
    left -= std::min(left, group.size());
    for (Task& next : group) {
      next();
      next = nullptr;  // what a task holds is let go at once, not with its group
    }
    group.clear();
    if (after_group_) after_group_();
  }
}

size_t Executor::depth() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

Helper::Helper() : thread_([this] { Loop(); }) {}

Helper::~Helper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Helper::Take(Executor& executor) {
  {
    const std::lock_guard lock(mutex_);
    given_.push_back(&executor);
  }
  changed_.notify_one();
}

bool Helper::TakeBack(Executor& executor) {
  const std::lock_guard lock(mutex_);
  return std::erase(given_, &executor) > 0;
}

void Helper::Loop() {
  world::Soon soon;
  while (true) {
    Executor* next = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !given_.empty(); });
      if (given_.empty()) return;
      next = given_.front();
      given_.pop_front();
    }
    next->Drain();
    soon.KickAll();
  }
}

}  // namespace paceline::shard
