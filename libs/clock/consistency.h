#pragma once

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

}  // namespace paceline::clock
