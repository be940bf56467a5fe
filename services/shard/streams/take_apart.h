#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/filter/key_lists.h"
#include "libs/log/primary.h"
#include "libs/log/record.h"
#include "libs/wire/packed.h"
#include "services/shard/control/catalogue.h"
#include "services/shard/streams/hello.h"

// Takes frames apart, by segment. Pure; borrows the frame's memory. Checks the frame as a whole; each primary
// judges its own part.
namespace paceline::shard {

// The place of one entry of a frame's part table in its blobs.
struct Slice {
  SegmentId segment;
  Epoch sender_epoch;
  PartNumber number = 0;
  uint32_t count = 0;  // entries
  uint64_t rows = 0;
  absl::string_view keys;
  uint64_t first_row = 0;  // of the frame's rows
};

// INVALID_ARGUMENT naming the field if the table does not fit the keys, or names a segment off the ring.
absl::StatusOr<std::vector<Slice>> SliceKeys(absl::Span<const wire::PartEntry> entries, log::KeyForm form,
                                             absl::string_view keys, uint32_t segments);

// True: the keys of the slices are known to be of the table, and of their segments, since they are those of a
// list
// (`notes`; null: they are not) whose first use was the same, and good. Looks at them at that first use only:
// keys that are not known are looked at by their segments. For the thread that brings the stream's frames.
bool KnownGood(filter::ListNotes* notes, const log::TableInfo& table, log::KeyForm form,
               absl::Span<const Slice> slices, int ring_bits);

// INVALID_ARGUMENT: a segment occurs twice.
absl::Status CheckOnceEach(absl::Span<const Slice> slices, uint32_t segments);

// INVALID_ARGUMENT unless `value_bytes` is `dim` f32 for each row of `slices`.
absl::Status CheckWidth(absl::Span<const Slice> slices, uint32_t dim, size_t value_bytes,
                        const std::string& table);

// INVALID_ARGUMENT: a form of keys, a line this feature level does not know; or filters, which are gone from
// a frame that was made plain (stream_filters.h).
absl::StatusOr<log::KeyForm> FormOf(v1::KeyForm form);
absl::StatusOr<Line> LineOf(v1::Line line);
absl::Status CheckFilters(absl::Span<const uint32_t> filters);

}  // namespace paceline::shard
