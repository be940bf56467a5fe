// Invariants of what readers get.
#include "absl/strings/str_cat.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {

// A read is served at a min clock that is there, and no smaller than what was asked.
void Invariants::ReadBound(SegmentId segment, Clock min_clock, Clock asked) {
  const Clock there = ledgers_[segment.v].min_clock;
  if (min_clock >= asked && min_clock <= there) return;
  verdict_.Violated("ReadBound", absl::StrCat("segment ", segment.v, ": min clock ", asked, " was asked, ",
                                              min_clock, " is certified, ", there, " is logged"));
}

// A read that names the reader's parts holds them.
void Invariants::OwnWrites(SegmentId segment, PartNumber own, PartNumber asked) {
  if (own >= asked) return;
  verdict_.Violated("OwnWrites", absl::StrCat("segment ", segment.v, ": the reader's part ", asked,
                                              " was named, the read holds ", own));
}

// What a user got lies between what was promised and what was pushed: own writes, what was acknowledged, and
// every worker's updates that the model promises.
void Invariants::Values(const TrueRead& read, uint64_t key, uint32_t column, float value) {
  const Bounds bounds = truth_.BoundsOf(read, key, column);
  const auto violated = [&](const char* invariant, float bound) {
    verdict_.Violated(invariant, absl::StrCat("session ", read.reader.v, " reads ", value, " for key ", key,
                                              ", column ", column, "; the bound is ", bound));
  };
  if (value < bounds.own) violated("OwnWrites", bounds.own);
  if (value < bounds.clock) violated("ReadBound", bounds.clock);
  if (value < bounds.acked) violated("AckLogged", bounds.acked);
  if (value > bounds.most) violated("Once", bounds.most);
}

}  // namespace paceline::sim
