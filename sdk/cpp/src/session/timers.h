#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace paceline::sdk {

// Tasks by the time at which they are due. Has no clock: its owner asks for Next() and calls Run() then.
// Tasks that are due at the same time run in the order of their scheduling.
class Timers {
 public:
  using Task = absl::AnyInvocable<void()>;
  // Names a scheduled task; a default one names none. Good for Cancel even after the task has run.
  using Id = std::pair<absl::Time, uint64_t>;

  Id At(absl::Time when, Task task) {
    const Id id{when, ++count_};
    tasks_.emplace(id, std::move(task));
    return id;
  }

  void Cancel(Id id) { tasks_.erase(id); }
  void Clear() { tasks_.clear(); }

  absl::Time Next() const { return tasks_.empty() ? absl::InfiniteFuture() : tasks_.begin()->first.first; }

  // Runs the tasks that are due. A task may schedule and cancel others; tasks that it schedules for now run
  // too.
  void Run(absl::Time now) {
    while (!tasks_.empty() && tasks_.begin()->first.first <= now) {
      auto due = tasks_.extract(tasks_.begin());
      due.mapped()();
    }
  }

 private:
  std::map<Id, Task> tasks_;
  uint64_t count_ = 0;
};

}  // namespace paceline::sdk
