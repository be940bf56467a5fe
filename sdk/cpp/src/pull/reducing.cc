#include "sdk/cpp/src/pull/reducing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "libs/wire/partial.h"

namespace paceline::sdk {

std::string Reducing::PlaceOf(size_t part) const {
  std::string place(2 * sizeof(uint64_t), '\0');
  StoreU64(parts_[part].cursor, place.data());
  StoreU64(parts_[part].epoch.v, place.data() + sizeof(uint64_t));
  return place;
}

absl::StatusOr<bool> Reducing::Take(size_t index, const wire::Certificate& certificate,
                                    const absl::Cord& values) {
  const absl::StatusOr<wire::PartialRead> read = wire::ReadPartial(query_, std::string(values));
  if (!read.ok()) return read.status();
  Part& part = parts_[index];
  if (certificate.epoch != part.epoch && !Planted(Bug::kSlicesOfTwoEpochs)) {
    part = Part();  // it has begun anew
  }
  part.epoch = certificate.epoch;
  part.partial.Merge(query_, read->partial);
  part.cursor = read->end.cursor;
  return !read->end.more;
}

table::Partial Reducing::Whole() const {
  table::Partial whole;
  for (const Part& part : parts_) whole.Merge(query_, part.partial);
  return whole;
}

std::vector<SegmentId> SegmentsOf(const ring::Placement& placement, const table::ReduceQuery& query) {
  std::vector<SegmentId> segments;
  uint64_t first = 0;  // block of a ranged table; of a sparse one, segment
  uint64_t count = placement.SegmentCount();
  if (placement.ranged()) {
    first = placement.BlockOf(query.first);
    const uint64_t last = placement.BlockOf(std::min(query.last, placement.rows() - 1));
    if (last - first < count) count = last - first + 1;
  }
  for (uint64_t i = 0; i < count; ++i) {
    segments.push_back(placement.ranged() ? placement.OfBlock(first + i)
                                          : SegmentId(static_cast<uint32_t>(i)));
  }
  return segments;
}

std::shared_ptr<const Batch> BatchOf(absl::Span<const SegmentId> segments, const table::ReduceQuery& query,
                                     Allocate allocate) {
  constexpr auto kEntries = static_cast<uint32_t>(wire::kReductionKeys);
  auto batch = std::make_shared<Batch>();
  batch->dim = static_cast<uint32_t>(wire::PartialBytes(query) / sizeof(float));
  // Their content is that of the first slice; Reducing::PlaceOf has that of the others.
  batch->keys = allocate(segments.size() * kEntries * batch->EntryBytes());
  std::fill_n(batch->keys.get(), segments.size() * kEntries * batch->EntryBytes(), '\0');
  for (const SegmentId segment : segments) {
    batch->pieces.push_back({.segment = segment,
                             .first_entry = batch->entries,
                             .entries = kEntries,
                             .first_row = batch->rows,
                             .rows = 1});
    batch->entries += kEntries;
    ++batch->rows;
  }
  return batch;
}

}  // namespace paceline::sdk
