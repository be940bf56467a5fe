#pragma once

#include "libs/base/ids.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"

// Reads that ask for a reduction of a table's rows. A read is one slice; the client asks for the next one
// with the cursor at which it ended. So nothing is kept here between slices, and a segment is never busy with
// one for long.
namespace paceline::log {

// Writes the partial result of one slice to read.out. A cursor counts for one primary only, because another
// member may have cut its pages elsewhere, and may lack what this one had not committed: with an epoch other
// than `epoch` the segment begins from its first row. REQUIRES: the query suits the table.
void AnswerReduction(const Read& read, const Segment::Table& table, SegmentId segment, Epoch epoch);

}  // namespace paceline::log
