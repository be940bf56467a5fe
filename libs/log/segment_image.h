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

// The transfer of a segment to a *learner*. First comes an image of everything but its rows, as of one LSN a.
// Then come its pages, each a copy as of the LSN at which it was made, while the segment goes on, and all
// records a + 1, a + 2, … A page as of LSN p holds the updates up to p, and records up to p leave it alone
// (table/store.h). So once the learner has applied the records up to the newest page's version, it equals the
// segment that it was copied from.
//
// Order: a page as of p comes before any record after p. Pages and records are made in that order, so one
// stream for both preserves it. Until its page has come a row at the learner may be wrong, since records are
// applied to what is there; nobody may read it before the walk has ended and the version of its newest page
// is applied. Rows of tables that were opened after a come from the log alone.
//
// A copy may hold records that are not committed yet. It counts only together with a log that has them: if
// its primary's epoch ends before the walk does, a learner discards all of the copy.
namespace paceline::log {

// Everything but rows, as of segment.version() and segment.epoch(), without soft state (ticks). Equal
// segments have equal images. O(sessions + workers + tables).
v1::SegmentImage ImageOf(const Segment& segment);

// The segment of an image, without rows. Safe for hostile messages: INVALID_ARGUMENT names the fault,
// also if the image is not of segment `expected` of a ring of 2^ring_bits.
absl::StatusOr<Segment> SegmentFromImage(const v1::SegmentImage& image, SegmentId expected, int ring_bits);

// Walks over the pages of a segment while the segment changes. Every page that existed when the walk began is
// delivered once, whole or in the pieces into which it was split, at a version not older than the beginning.
// Pages of tables dropped meanwhile are left out; pages born meanwhile may be left out. Plain value; belongs
// to the segment's owner.
class PageWalk {
 public:
  // Begins at segment.version(): create the walk together with the image.
  explicit PageWalk(const Segment& segment);

  // Appends copies of the next pages to `out`, as of segment.version(): at least one, up to about `bytes_max`
  // bytes of keys and rows. False, with nothing appended: there are no more. Costs the copies, and for a
  // ranged table O(1) for each page.
  bool Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out);
  // The same for the pages that `wanted` accepts. It is called for every page reached; for the page at which
  // a call ends perhaps twice.
  using Wanted = absl::FunctionRef<bool(TableId, const table::Page&)>;
  bool Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out, Wanted wanted);

 private:
  std::vector<TableId> tables_;  // tables when the walk began, ascending
  size_t table_ = 0;             // in tables_
  uint64_t from_ = 0;            // pages of the table that lie below were delivered
};

// Installs a page that PageWalk delivered. Does nothing if its table is not here: it was dropped, or will
// come with the log. Safe for hostile messages. On error nothing has changed:
//   DATA_LOSS            it is not a page of that table in this segment
//   FAILED_PRECONDITION  the segment is past the page's version: records overtook it; begin again with an
//                        image
absl::Status InstallPage(Segment& segment, const v1::PageImage& page);

// The fields of a v1::PageImage where they lie; the bytes must outlive it.
struct PackedPage {
  TableId table;
  uint64_t start = 0;
  uint32_t depth = 0;
  Lsn version;
  absl::string_view keys;
  absl::string_view rows;
};
// As v1::PageImage::ParseFromString, without a copy of keys and rows. Safe for damaged bytes: an error.
absl::StatusOr<PackedPage> ParsePage(absl::string_view bytes);
absl::Status InstallPage(Segment& segment, const PackedPage& page);

}  // namespace paceline::log
