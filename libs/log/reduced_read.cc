#include "libs/log/reduced_read.h"

#include "libs/log/keys.h"
#include "libs/wire/partial.h"

namespace paceline::log {

void AnswerReduction(const Read& read, const Segment::Table& table, SegmentId segment, Epoch epoch) {
  const table::KeyView place = Keys(read.keys);
  const uint64_t cursor = Epoch(place[1]) == epoch ? place[0] : 0;
  table::Partial partial;
  const table::SliceEnd end =
      table::ReduceSlice(table.rows, table.placement, segment, *read.reduction, cursor, &partial);
  wire::WritePartial(*read.reduction, partial, end, reinterpret_cast<char*>(read.out));
}

}  // namespace paceline::log
