#pragma once

#include "absl/time/time.h"

namespace paceline::world {

// Where time comes from. Leases, deadlines and timeouts ask a Clock that was passed to them and nothing else,
// so that a test or the simulator can own time.
class Clock {
 public:
  virtual ~Clock() = default;

  // A monotonic time: never less than an earlier call returned, even if somebody sets the machine's clock.
  // Its epoch is arbitrary, differs between processes and is no calendar's: compare and subtract such times,
  // add durations to them, but neither print them as dates nor send them to another process. (Durations may
  // be sent; allow for drift.)
  //
  // Safe to call from any thread; cheap enough to be called for every frame.
  virtual absl::Time Now() const = 0;
};

}  // namespace paceline::world
