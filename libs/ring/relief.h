#pragma once

#include "absl/functional/function_ref.h"
#include "libs/ring/copies.h"
#include "libs/ring/plan.h"
#include "libs/ring/roster.h"

namespace paceline::ring {

// What one exchange must lessen the sum of squares by, traffic and bytes being counted in means of all
// shards. A hundredth of the mean that goes from a shard with 1.16 means to one with 1 does.
inline constexpr double kReliefMargin = 0.003;

// Step 7 of the planner, of no use elsewhere. Does nothing while a shard drains, or does not take all that it
// could. Otherwise, from the shard with most traffic, or most bytes, some segment
// goes to another shard, and mostly one comes back for it, so that numbers stay even. As long as some
// exchange lessens
//
//   sum over shards of (traffic / mean traffic)^2 + (bytes / mean bytes)^2
//
// by kReliefMargin, the one that lessens it most is begun; of shards in the order of what they have, the
// first that can be relieved. Without replicas primaries go with their data. With replicas two primaries are
// handed over, in opposite directions; and if no hand-over helps, replicas change places for the sake of
// bytes.
//
// `may`: the segment may go to the shard; room for moves is counted. `begin`: it goes, from `from` to `to`,
// and `copies` shows it. O(segments of a shard ^ 2 * shards) an exchange.
void Relieve(const PlanInput& input, const Roster& roster, const Copies& copies,
             absl::FunctionRef<bool(Move::Kind kind, uint32_t segment, int to)> may,
             absl::FunctionRef<void(Move::Kind kind, uint32_t segment, int from, int to)> begin);

}  // namespace paceline::ring
