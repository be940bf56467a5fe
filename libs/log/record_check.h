#pragma once

#include "absl/status/status.h"
#include "libs/log/segment.h"

namespace paceline::log {

// OK if `segment` can apply `record` next. Segment::Apply trusts its caller, so a record from another process
// is checked here first: the sessions and tables that it names are open, its rows have the table's width and
// lie in the segment. It does not check what only a primary decides, such as the numbers of parts or the
// memory budget.
//
// DATA_LOSS names the mismatch: the two logs have diverged, or bytes were damaged on the way. O(keys), with
// one hash for each key of a sparse table.
absl::Status CheckApplies(const Segment& segment, const Record& record);

}  // namespace paceline::log
