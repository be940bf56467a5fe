#include "libs/world/wall_clock.h"

#include "absl/time/clock.h"

namespace paceline::world {

absl::Time WallClock() {
  return absl::Now();
}

}  // namespace paceline::world
