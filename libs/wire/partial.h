#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/table/reduction.h"
#include "paceline/v1/shard.pb.h"

// Reductions as they travel (docs/wire.md §12): the query in a pull, and for each of its parts a partial
// result in place of rows.
namespace paceline::wire {

// Keys of a part: a cursor and an epoch.
inline constexpr size_t kReductionKeys = 2;

// A partial result takes so many bytes, whatever is in it.
size_t PartialBytes(const table::ReduceQuery& query);

// REQUIRES: at most query.k entries; room for PartialBytes.
void WritePartial(const table::ReduceQuery& query, const table::Partial& partial, const table::SliceEnd& end,
                  char* to);

struct PartialRead {
  table::Partial partial;
  table::SliceEnd end;
};
// INVALID_ARGUMENT names what is wrong. Safe for hostile bytes.
absl::StatusOr<PartialRead> ReadPartial(const table::ReduceQuery& query, absl::string_view bytes);

v1::Reduction ToProto(const table::ReduceQuery& query);
// What it says, unchecked: table::CheckQuery knows whether a table can answer it.
table::ReduceQuery QueryFromProto(const v1::Reduction& reduction);

}  // namespace paceline::wire
