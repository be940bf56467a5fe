#pragma once

#include "absl/status/status.h"
#include "libs/log/segment.h"

namespace paceline::log {

// OK if `segment` can apply `record` next. Segment::Apply trusts its caller; a record that came from another
// process is checked here first: the sessions and tables it names are open, its rows are as wide as the
// table's and lie in the segment. It does not judge what only a primary decides, like the numbers of parts or
// the budget of memory.
//
// DATA_LOSS names what does not fit: the two logs have diverged, or bytes were damaged on the way. O(keys),
// a hash for each key of a sparse table.
absl::Status CheckApplies(const Segment& segment, const Record& record);

}  // namespace paceline::log
