#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"

namespace paceline::sim {

// All of virtual time: what is to happen, by time and then by order of arrival. Nothing else makes anything
// happen, and nothing takes time but waiting for the next event.
class Scheduler {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Runs `task` at `when`, or now, after what is due already, if that is past.
  void At(absl::Time when, Task task);
  void After(absl::Duration delay, Task task) { At(now_ + delay, std::move(task)); }

  // Runs the next event. False: there is none.
  bool RunOne();

  absl::Time Now() const { return now_; }
  // Events run so far: the number of the step under way.
  uint64_t steps() const { return steps_; }
  // Drops everything that has not happened.
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
