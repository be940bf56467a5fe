#pragma once

#include "absl/time/time.h"

namespace paceline::world {

// The date, as the machine's wall clock has it: for what people read, and for names that should differ.
// Somebody may set that clock at any moment, back too: nothing is decided and nothing waited for by it (see
// Clock, MonotonicNow). The one place that reads it; scripts/check refuses others.
absl::Time WallClock();

}  // namespace paceline::world
