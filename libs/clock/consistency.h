#pragma once

#include <string>
#include <variant>

#include "libs/base/ids.h"

// Consistency models as arithmetic on clocks. Waiting is the caller's business, so that the rule can be
// tested without threads.
namespace paceline::clock {

// A reader at clock c sees at least all updates of clocks < c − staleness (stale synchronous parallel; Ho et
// al., NIPS 2013).
struct Ssp {
  Clock staleness = 0;
};
// Newer is welcome, nothing is promised and nobody waits.
struct Asp {};
// A reader at clock c sees exactly the updates of clocks < c (bulk synchronous parallel; Valiant, CACM 1990).
// On aggregated tables only: there a value at min clock c holds nothing of clock c.
struct Bsp {};

using Model = std::variant<Ssp, Asp, Bsp>;

// The smallest min clock that may serve a reader at `reader`. Saturates at 0.
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
