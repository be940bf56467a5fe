#pragma once

#include <vector>

#include "libs/ring/planner.h"
#include "libs/ring/roster.h"

namespace paceline::ring {

// The half of Assign (planner.h, promises 1, 5 and 6) that adds `replicas` replicas to the primaries:
// result[i] are the roster's indices of segment i's replicas, ascending. `previous` may be null.
//
// REQUIRES: replicas < roster.size(); each of `primaries` is an index of the roster.
std::vector<std::vector<int>> AssignReplicas(const Roster& roster, const Assignment* previous,
                                             const std::vector<int>& primaries, int replicas);

}  // namespace paceline::ring
