#include "libs/world/real_clock.h"

#include <ctime>

namespace paceline::world {

absl::Time RealClock::Now() const {
  return MonotonicNow();
}

absl::Time MonotonicNow() {
  // A lease must run out while its holder's machine is suspended. CLOCK_MONOTONIC stands still meanwhile,
  // and so does std::chrono::steady_clock; on Linux CLOCK_BOOTTIME goes on.
#if defined(CLOCK_BOOTTIME)
  constexpr clockid_t kId = CLOCK_BOOTTIME;
#else
  constexpr clockid_t kId = CLOCK_MONOTONIC;
#endif
  timespec now{};
  clock_gettime(kId, &now);  // cannot fail for a clock the system has
  return absl::TimeFromTimespec(now);
}

}  // namespace paceline::world
