#pragma once

#include "absl/status/status.h"
#include "libs/log/record.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"
#include "libs/log/shard_side.h"

// Whether a part may be taken, as a segment is now.
namespace paceline::log {

// NOT_FOUND: the table was dropped here.
absl::Status CheckNotDropped(const TableInfo& table, const Segment& segment);

// OK if every key of `keys` lies in `segment`, and ranges end within the table.
absl::Status CheckPlacedIn(const TableInfo& table, int ring_bits, SegmentId segment, KeyForm form,
                           absl::string_view keys);

// Judges keys, unless they are known to be good, values and clock. INVALID_ARGUMENT, or NOT_FOUND as above.
// REQUIRES: the part has rows, and its session is open.
absl::Status CheckContent(const Part& part, const Segment& segment);

// RESOURCE_EXHAUSTED: the rows that the part would create find no room. REQUIRES: its table is open.
absl::Status CheckFits(const Part& part, const Segment& segment, RowMemory& memory);

}  // namespace paceline::log
