#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/placement.h"
#include "libs/table/reduction.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

// A reduction under way: a pull whose parts are asked slice by slice. The pull keeps its clock, its bound and
// its deadline until all slices are there. Single owner: the core while the pull is under way, and then
// whoever made it.
class Reducing {
 public:
  // `parts`: how many segments are asked.
  Reducing(const table::ReduceQuery& query, size_t parts) : query_(query), parts_(parts) {}

  const table::ReduceQuery& query() const { return query_; }
  // The keys of the next request for a part: a cursor and an epoch, packed.
  std::string PlaceOf(size_t part) const;
  // Takes a slice. True: it was the part's last one. INVALID_ARGUMENT: the shard broke the rules of the wire.
  absl::StatusOr<bool> Take(size_t part, const wire::Certificate& certificate, const absl::Cord& values);

  // All that was taken. O(parts).
  table::Partial Whole() const;

 private:
  // What is there of one segment: slices of one epoch.
  struct Part {
    Epoch epoch;
    uint64_t cursor = 0;
    table::Partial partial;
  };

  const table::ReduceQuery query_;
  std::vector<Part> parts_;
};

// The segments that have rows of the query; all of a sparse table's. O(segments).
std::vector<SegmentId> SegmentsOf(const ring::Placement& placement, const table::ReduceQuery& query);

// One piece for each segment, of one "row": its partial result.
std::shared_ptr<const Batch> BatchOf(absl::Span<const SegmentId> segments, const table::ReduceQuery& query,
                                     Allocate allocate);

}  // namespace paceline::sdk
