#pragma once

#include "absl/time/time.h"
#include "libs/sim/scheduler.h"
#include "libs/world/clock.h"

namespace paceline::sim {

// A process's own clock, which runs faster or slower than true time, and changes its rate now and then.
class DriftingClock final : public world::Clock {
 public:
  DriftingClock(const Scheduler& scheduler, double rate)
      : scheduler_(scheduler), rate_(rate), since_(scheduler.Now()), shown_(scheduler.Now()) {}

  absl::Time Now() const override { return shown_ + (scheduler_.Now() - since_) * rate_; }
  // Sets the rate from now on.
  void Slew(double rate) {
    shown_ = Now();
    since_ = scheduler_.Now();
    rate_ = rate;
  }
  // The true time at which the clock will certainly show `own`, at its present rate.
  absl::Time When(absl::Time own) const {
    if (own == absl::InfiniteFuture() || own == absl::InfinitePast()) return own;
    return since_ + (own - shown_) / rate_ + absl::Microseconds(1);
  }

 private:
  const Scheduler& scheduler_;
  double rate_;
  absl::Time since_;  // the true time at which
  absl::Time shown_;  // the clock showed this
};

}  // namespace paceline::sim
