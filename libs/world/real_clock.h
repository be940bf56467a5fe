#pragma once

#include "absl/time/time.h"
#include "libs/world/clock.h"

namespace paceline::world {

// The machine's monotonic clock: the time since boot, including the time the machine was suspended.
// Stateless.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override;
};

// The same, for adapters and programs, to which no clock is passed.
absl::Time MonotonicNow();

}  // namespace paceline::world
