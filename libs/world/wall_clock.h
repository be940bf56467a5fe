#pragma once

#include "absl/time/time.h"

namespace paceline::world {

// The date by the machine's wall clock: for people to read, and for names that should differ. Somebody may
// set that clock at any moment, also back, so no decision and no wait depends on it (see Clock,
// MonotonicNow). This is the one place that reads it; scripts/check refuses others.
absl::Time WallClock();

}  // namespace paceline::world
