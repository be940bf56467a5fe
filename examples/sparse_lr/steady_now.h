#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace paceline::examples {

// A time that goes on evenly, whoever sets the machine's clock: to wait by and to measure with; no date.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace paceline::examples
