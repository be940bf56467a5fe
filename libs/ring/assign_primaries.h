#pragma once

#include <vector>

#include "libs/ring/planner.h"
#include "libs/ring/roster.h"

namespace paceline::ring {

// The half of Assign (planner.h, promises 2, 3, 4 and 6) that names the primaries: result[i] is the roster's
// index of segment i's primary. `previous` may be null.
std::vector<int> AssignPrimaries(const Roster& roster, const Assignment* previous, uint32_t segments);

}  // namespace paceline::ring
