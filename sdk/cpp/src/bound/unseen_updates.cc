#include "sdk/cpp/src/bound/unseen_updates.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libs/base/little_endian.h"

namespace paceline::sdk {
namespace {

double NormOf(const char* values, uint32_t dim) {
  double norm = 0;
  for (uint32_t i = 0; i < dim; ++i) {
    float value = 0;
    std::memcpy(&value, values + i * sizeof(value), sizeof(value));
    norm = std::max(norm, std::isfinite(value) ? std::fabs(static_cast<double>(value))
                                               : static_cast<double>(std::numeric_limits<float>::max()));
  }
  return norm;
}

// Calls take(key) for each row of the piece, in order.
template <class Take>
void ForEachRowOf(const Batch& batch, const Batch::Piece& piece, Take take) {
  const absl::string_view keys = batch.Keys(piece);
  for (size_t i = 0; i < piece.entries; ++i) {
    const uint64_t first = LoadU64(keys.data() + i * batch.EntryBytes());
    const uint64_t count = batch.ranges ? LoadU64(keys.data() + i * batch.EntryBytes() + 8) : 1;
    for (uint64_t k = 0; k < count; ++k) take(first + k);
  }
}

}  // namespace

WeighedPush Weigh(const TableInfo& table, const Batch& batch) {
  WeighedPush push{.table = table.id, .segments = {}};
  for (const Batch::Piece& piece : batch.pieces) {
    std::vector<WeighedPush::Row>& rows = push.segments[piece.segment];
    const char* values = batch.Values(piece).data();
    ForEachRowOf(batch, piece, [&](uint64_t key) {
      const double norm = NormOf(values, batch.dim);
      values += batch.RowBytes();
      if (norm > 0) rows.push_back({.key = key, .norm = norm});
    });
  }
  for (auto& [segment, rows] : push.segments) {
    std::ranges::stable_sort(rows, {}, &WeighedPush::Row::key);
    size_t kept = 0;
    for (const WeighedPush::Row& row : rows) {
      if (kept > 0 && rows[kept - 1].key == row.key) {
        rows[kept - 1].norm += row.norm;
      } else {
        rows[kept++] = row;
      }
    }
    rows.resize(kept);
    push.rows += kept;
  }
  std::erase_if(push.segments, [](const auto& entry) { return entry.second.empty(); });
  return push;
}

bool UnseenUpdates::Fits(TableId table, const WeighedPush::Row& row, double bound) const {
  const auto sum = sums_.find(RowName{table, row.key});
  return sum == sums_.end() || sum->second.norm + row.norm <= bound;
}

bool UnseenUpdates::Fits(const WeighedPush& push, double bound) const {
  if (!HasRoom(push)) return false;
  return std::ranges::all_of(push.segments, [&](const auto& entry) {
    return std::ranges::all_of(entry.second,
                               [&](const WeighedPush::Row& row) { return Fits(push.table, row, bound); });
  });
}

std::vector<SegmentId> UnseenUpdates::InItsWay(const WeighedPush& push, double bound) const {
  std::vector<SegmentId> segments;
  if (!HasRoom(push)) {
    for (const auto& [segment, parts] : parts_) segments.push_back(segment);
    return segments;
  }
  for (const auto& [segment, rows] : push.segments) {
    if (IsInItsWay(segment, push, bound)) segments.push_back(segment);
  }
  return segments;
}

bool UnseenUpdates::IsInItsWay(SegmentId segment, const WeighedPush& push, double bound) const {
  if (!HasRoom(push)) return parts_.contains(segment);
  const auto rows = push.segments.find(segment);
  if (rows == push.segments.end()) return false;
  return !std::ranges::all_of(rows->second,
                              [&](const WeighedPush::Row& row) { return Fits(push.table, row, bound); });
}

std::vector<SegmentId> UnseenUpdates::Add(const WeighedPush& push, double bound,
                                          absl::FunctionRef<PartNumber(SegmentId)> number) {
  std::vector<SegmentId> worth_asking;
  for (const auto& [segment, rows] : push.segments) {
    bool much = false;
    for (const WeighedPush::Row& row : rows) {
      Sum& sum = sums_[RowName{push.table, row.key}];
      sum.norm += row.norm;
      ++sum.updates;
      much |= sum.norm > bound / 2;
    }
    parts_[segment].push_back({.number = number(segment), .table = push.table, .rows = rows});
    rows_ += rows.size();
    if (much) worth_asking.push_back(segment);
  }
  if (rows_ <= rows_max_ / 2) return worth_asking;
  worth_asking.clear();
  for (const auto& [segment, parts] : parts_) worth_asking.push_back(segment);
  return worth_asking;
}

bool UnseenUpdates::Seen(SegmentId segment, PartNumber upto) {
  const auto found = parts_.find(segment);
  if (found == parts_.end() || found->second.front().number > upto) return false;
  std::deque<Part>& parts = found->second;
  while (!parts.empty() && parts.front().number <= upto) {
    for (const WeighedPush::Row& row : parts.front().rows) {
      const auto sum = sums_.find(RowName{parts.front().table, row.key});
      sum->second.norm -= row.norm;
      if (--sum->second.updates == 0) sums_.erase(sum);
    }
    rows_ -= parts.front().rows.size();
    parts.pop_front();
  }
  if (parts.empty()) parts_.erase(found);
  ++news_;
  return true;
}

PartNumber UnseenUpdates::Last(SegmentId segment) const {
  const auto parts = parts_.find(segment);
  return parts == parts_.end() ? 0 : parts->second.back().number;
}

}  // namespace paceline::sdk
