#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"

namespace paceline::sim {

// Virtual time: a queue of tasks, by time and then by order of arrival. Nothing else causes events, and only
// waiting for the next task takes time.
class Scheduler {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Runs `task` at `when`; if that is past, now, after the tasks that are already due.
  void At(absl::Time when, Task task);
  void After(absl::Duration delay, Task task) { At(now_ + delay, std::move(task)); }

  // Runs the next event. False: there is none.
  bool RunOne();

  absl::Time Now() const { return now_; }
  // The number of tasks run so far: the step under way.
  uint64_t steps() const { return steps_; }
  // Drops all tasks that have not run.
  void Clear() { queue_.clear(); }

 private:
  std::map<std::pair<absl::Time, uint64_t>, Task> queue_;
  uint64_t arrivals_ = 0;
  uint64_t steps_ = 0;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
};

// Virtual time as code under simulation sees it.
class SimClock final : public world::Clock {
 public:
  explicit SimClock(const Scheduler& scheduler) : scheduler_(scheduler) {}
  absl::Time Now() const override { return scheduler_.Now(); }

 private:
  const Scheduler& scheduler_;
};

}  // namespace paceline::sim
