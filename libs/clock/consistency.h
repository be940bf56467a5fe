#pragma once

#include <algorithm>
#include <cstdint>

#include "libs/base/ids.h"

// Consistency as arithmetic on clocks. The caller does the waiting, so that the rules can be tested without
// threads.
namespace paceline::clock {

// The smallest min clock at which a reader at clock `reader` may be served, if its values may lack updates of
// `staleness` clocks. Saturates at 0.
inline Clock MinClockFor(Clock staleness, Clock reader) {
  return reader > staleness ? reader - staleness : 0;
}

// How many clocks behind its reader a value was. Saturates at 0.
inline Clock ObservedStaleness(Clock reader, Clock min_clock) {
  return reader > min_clock ? reader - min_clock : 0;
}

// -- a bound that follows the waiting of a job's workers (docs/consistency.md) --

// The bound before the first change: so large that a job whose workers are slow in turns does not wait most
// of its time until then.
inline constexpr uint32_t kFirstBound = 8;
// The smallest bound. A reader goes by it where it does not know what was agreed.
inline constexpr uint32_t kSmallestBound = 1;
// A bound as the messages have it, where 0 is the first one; of readers that allow at most `most`.
inline uint32_t BoundOf(uint32_t stated, uint32_t most = UINT32_MAX) {
  return std::min(stated == 0 ? kFirstBound : stated, most);
}

}  // namespace paceline::clock
