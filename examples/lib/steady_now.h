#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace paceline::examples {

// A time that goes on evenly even if the machine's clock is set: for waiting and measuring, not for dates.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace paceline::examples
