#include "services/shard/streams/take_apart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"
#include "libs/log/part_check.h"
#include "libs/table/admission.h"

namespace paceline::shard {
namespace {

// A use of a list: the table, and what of it is of which segment. At most 4 bytes more than the keys.
std::string UseOf(const log::TableInfo& table, absl::Span<const Slice> slices) {
  std::string use;
  const auto put = [&use](uint32_t number) {
    char bytes[sizeof(number)];
    StoreU32(number, bytes);
    use.append(bytes, sizeof(bytes));
  };
  use.reserve((1 + 2 * slices.size()) * sizeof(uint32_t));
  put(table.id.v);
  for (const Slice& slice : slices) {
    if (slice.count == 0) continue;
    put(slice.segment.v);
    put(slice.count);
  }
  return use;
}

bool AllGood(const log::TableInfo& table, absl::Span<const Slice> slices, int ring_bits) {
  return std::ranges::all_of(slices, [&](const Slice& slice) {
    return table::CheckKeys(table.schema, log::Keys(slice.keys)).ok() &&
           log::CheckPlacedIn(table, ring_bits, slice.segment, log::KeyForm::kKeys, slice.keys).ok();
  });
}

}  // namespace

absl::StatusOr<std::vector<Slice>> SliceKeys(absl::Span<const wire::PartEntry> entries, log::KeyForm form,
                                             absl::string_view keys, uint32_t segments) {
  const size_t entry_bytes = log::BytesPerEntry(form);
  std::vector<Slice> slices;
  slices.reserve(entries.size());
  uint64_t at = 0;
  uint64_t rows = 0;
  for (const wire::PartEntry& entry : entries) {
    if (entry.segment.v >= segments) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts: segment ", entry.segment.v, "; the ring has segments 0 to ", segments - 1));
    }
    const uint64_t bytes = uint64_t{entry.count} * entry_bytes;
    if (bytes > keys.size() - at) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys: ", keys.size(), " bytes; the part table counts more than ",
                       (at + bytes) / entry_bytes, " entries of ", entry_bytes, " bytes"));
    }
    Slice& slice = slices.emplace_back();
    slice.segment = entry.segment;
    slice.sender_epoch = entry.epoch;
    slice.number = entry.number;
    slice.count = entry.count;
    slice.keys = keys.substr(at, bytes);
    slice.first_row = rows;
    ABSL_ASSIGN_OR_RETURN(slice.rows, log::CountRows(form, slice.keys));
    rows += slice.rows;
    at += bytes;
  }
  if (at != keys.size()) {
    return absl::InvalidArgumentError(absl::StrCat("keys: ", keys.size(), " bytes; the part table counts ",
                                                   at / entry_bytes, " entries of ", entry_bytes, " bytes"));
  }
  return slices;
}

bool KnownGood(filter::ListNotes* notes, const log::TableInfo& table, log::KeyForm form,
               absl::Span<const Slice> slices, int ring_bits) {
  if (notes == nullptr || form != log::KeyForm::kKeys) return false;
  std::string use = UseOf(table, slices);
  if (!notes->has_use()) notes->Note(use, AllGood(table, slices, ring_bits));
  return notes->GoodFor(use);
}

absl::Status CheckOnceEach(absl::Span<const Slice> slices, uint32_t segments) {
  std::vector<bool> seen(segments);
  for (const Slice& slice : slices) {
    if (seen[slice.segment.v]) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts: segment ", slice.segment.v,
                       " twice in one frame; a frame of this kind has one part a segment"));
    }
    seen[slice.segment.v] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckWidth(absl::Span<const Slice> slices, uint32_t dim, size_t value_bytes,
                        const std::string& table) {
  const uint64_t rows = slices.empty() ? 0 : slices.back().first_row + slices.back().rows;
  if (value_bytes == rows * dim * sizeof(float)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values: ", value_bytes, " bytes for ", rows, " rows of table '", table, "'; expected ",
                   rows * dim * sizeof(float), ": ", dim, " f32 a row; check the width of the rows"));
}

absl::StatusOr<log::KeyForm> FormOf(v1::KeyForm form) {
  if (form == v1::KEY_FORM_KEYS) return log::KeyForm::kKeys;
  if (form == v1::KEY_FORM_RANGES) return log::KeyForm::kRanges;
  return absl::InvalidArgumentError(absl::StrCat("key_form: ", static_cast<int>(form),
                                                 " is not known here; expected 0 (keys), 1 (ranges) or, of "
                                                 "a pull, 2 (changes) or 32 (a reduction)"));
}

absl::StatusOr<Line> LineOf(v1::Line line) {
  if (line == v1::LINE_ARRIVAL) return Line::kArrival;
  if (line == v1::LINE_AGGREGATED) return Line::kAggregated;
  return absl::InvalidArgumentError(absl::StrCat(
      "line: ", static_cast<int>(line), "; expected 1 (applied on arrival) or 2 (aggregated tables)"));
}

absl::Status CheckFilters(absl::Span<const uint32_t> filters) {
  if (filters.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "filters: ", filters.front(),
      " is not known here, was not agreed with the stream's Hello, or does not go with the others; "
      "name agreed ones by ascending numbers, or send plain keys and values"));
}

}  // namespace paceline::shard
