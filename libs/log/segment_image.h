#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/log/segment.h"
#include "paceline/v1/replication.pb.h"

// How a segment leaves memory and comes back at a *learner*: first an image of everything but its rows, as of
// one LSN a; then its pages, each a copy as of the LSN at which it was made, while the segment goes on; and
// the records a + 1, a + 2, … in full. A page that came as of LSN p holds the updates up to p, and the
// records up to p leave it alone (table/store.h); so once the learner has applied the records up to the last
// page, it is equal to what it was copied from.
//
// The order: a page as of p comes before any record after p. That is the order in which they are made, so one
// stream for both keeps it. Before its page has come a row may be wrong at the learner, for records are
// applied to what it has; nobody may read it until the walk has ended and its last page's version is applied.
// Rows of tables that were opened after a come by the log alone.
//
// A copy may hold records that are not committed yet. It counts only together with a log that has them: a
// learner discards all of it when its primary's epoch ends before the walk does.
namespace paceline::log {

// Everything but rows, as of segment.version() and segment.epoch(); what is soft (ticks) is not in it. Equal
// segments have equal images. O(sessions + workers + tables).
v1::SegmentImage ImageOf(const Segment& segment);

// The segment of an image, without rows. Takes hostile messages: INVALID_ARGUMENT names what is wrong, or is
// not of segment `expected` of a ring of 2^ring_bits.
absl::StatusOr<Segment> SegmentFromImage(const v1::SegmentImage& image, SegmentId expected, int ring_bits);

// Goes over the pages of a segment that changes meanwhile. Every page that was there when the walk began is
// delivered once, whole or in the pieces it was split into, as of a version not before that; pages of tables
// that were dropped meanwhile are left out, pages born meanwhile may be. Plain value; belongs to the
// segment's owner.
class PageWalk {
 public:
  // Begins at segment.version(): make it together with the image.
  explicit PageWalk(const Segment& segment);

  // Appends copies of the next pages to `out`, as of segment.version(): as many as come to `bytes_max` bytes
  // of keys and rows, and one at least. False, with nothing appended: there are no more. Costs the copies,
  // and of a ranged table a glance at each page.
  bool Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out);
  // The same of the pages that are `wanted` only, which is asked of every page that is come to, of the one at
  // which a call ends perhaps twice.
  using Wanted = absl::FunctionRef<bool(TableId, const table::Page&)>;
  bool Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out, Wanted wanted);

 private:
  std::vector<TableId> tables_;  // that were there when the walk began, ascending
  size_t table_ = 0;             // in tables_
  uint64_t from_ = 0;            // pages of the table that lie below were delivered
};

// Takes over a page that PageWalk delivered. Does nothing if its table is not here: it was dropped, or it is
// to come by the log. Takes hostile messages; with nothing changed
//   DATA_LOSS            it is not a page of that table in this segment
//   FAILED_PRECONDITION  the segment is past the page's version: records overtook it, so begin again with an
//                        image
absl::Status InstallPage(Segment& segment, const v1::PageImage& page);

}  // namespace paceline::log
