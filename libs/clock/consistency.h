#pragma once

#include <string>
#include <variant>

#include "libs/base/ids.h"

// Consistency models as arithmetic on clocks. The caller does the waiting, so that the rules can be tested
// without threads.
namespace paceline::clock {

// A reader at clock c sees at least all updates of clocks < c − staleness (stale synchronous parallel; Ho et
// al., NIPS 2013).
struct Ssp {
  Clock staleness = 0;
};
// Reads return the newest values there are: no promise, no wait.
struct Asp {};
// A reader at clock c sees exactly the updates of clocks < c (bulk synchronous parallel; Valiant, CACM 1990).
// On aggregated tables only: there a value at min clock c holds nothing of clock c.
struct Bsp {};

using Model = std::variant<Ssp, Asp, Bsp>;

// The smallest min clock at which a reader at clock `reader` may be served. Saturates at 0.
inline Clock MinClockFor(const Model& model, Clock reader) {
  if (std::holds_alternative<Bsp>(model)) return reader;
  const auto* ssp = std::get_if<Ssp>(&model);
  if (ssp == nullptr || reader <= ssp->staleness) return 0;
  return reader - ssp->staleness;
}

// How many clocks behind its reader a value was. Saturates at 0.
inline Clock ObservedStaleness(Clock reader, Clock min_clock) {
  return reader > min_clock ? reader - min_clock : 0;
}

}  // namespace paceline::clock
