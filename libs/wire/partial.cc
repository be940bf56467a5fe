#include "libs/wire/partial.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"

namespace paceline::wire {
namespace {

using table::ExactSum;
using table::ReduceQuery;

// The layout, by offset.
constexpr size_t kMore = 0;
constexpr size_t kEntries = 4;
constexpr size_t kCursor = 8;
constexpr size_t kCounts = 16;  // six of them
constexpr size_t kMax = 64;
constexpr size_t kMin = 68;
constexpr size_t kZero = 72;
constexpr size_t kLimbs = 80;
constexpr size_t kTop = kLimbs + ExactSum::kLimbs * sizeof(int64_t);
static_assert(kTop == 256);
constexpr size_t kEntryBytes = 16;

// In their order on the wire.
template <class P>
auto CountsOf(P& partial) {
  return std::array{&partial.rows, &partial.values,          &partial.non_zeros,
                    &partial.nans, &partial.plus_infinities, &partial.minus_infinities};
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("partial result: ", what));
}

}  // namespace

size_t PartialBytes(const ReduceQuery& query) {
  return kTop + (query.top() ? query.k * kEntryBytes : 0);
}

void WritePartial(const ReduceQuery& query, const table::Partial& partial, const table::SliceEnd& end,
                  char* to) {
  std::fill_n(to, PartialBytes(query), '\0');
  StoreU32(end.more ? 1 : 0, to + kMore);
  StoreU32(static_cast<uint32_t>(partial.top.size()), to + kEntries);
  StoreU64(end.cursor, to + kCursor);
  char* count_at = to + kCounts;
  for (const uint64_t* count : CountsOf(partial)) {
    StoreU64(*count, count_at);
    count_at += sizeof(uint64_t);
  }
  StoreF32(partial.max, to + kMax);
  StoreF32(partial.min, to + kMin);
  char* limb_at = to + kLimbs;
  for (const int64_t limb : partial.sum.Canonical()) {
    StoreU64(std::bit_cast<uint64_t>(limb), limb_at);
    limb_at += sizeof(uint64_t);
  }
  char* entry_at = to + kTop;
  for (const table::TopEntry& entry : partial.top) {
    StoreU64(entry.key, entry_at);
    StoreU32(entry.column, entry_at + 8);
    StoreF32(entry.value, entry_at + 12);
    entry_at += kEntryBytes;
  }
}

absl::StatusOr<PartialRead> ReadPartial(const ReduceQuery& query, absl::string_view bytes) {
  if (bytes.size() != PartialBytes(query)) {
    return Wrong(absl::StrCat(bytes.size(), " bytes; expected ", PartialBytes(query)));
  }
  const char* from = bytes.data();
  PartialRead read;
  const uint32_t more = LoadU32(from + kMore);
  const uint32_t entries = LoadU32(from + kEntries);
  if (more > 1) return Wrong(absl::StrCat("more: ", more, "; expected 0 or 1"));
  if (LoadU64(from + kZero) != 0) return Wrong("bytes 72 to 79 are not 0");
  if (entries > (query.top() ? query.k : 0))
    return Wrong(absl::StrCat(entries, " entries; more than asked for"));
  read.end = {.more = more == 1, .cursor = LoadU64(from + kCursor)};
  const char* count_at = from + kCounts;
  for (uint64_t* count : CountsOf(read.partial)) {
    *count = LoadU64(count_at);
    count_at += sizeof(uint64_t);
  }
  read.partial.max = LoadF32(from + kMax);
  read.partial.min = LoadF32(from + kMin);
  if (std::isnan(read.partial.max) || std::isnan(read.partial.min))
    return Wrong("NaN for a maximum or minimum");
  ExactSum::Limbs limbs;
  for (size_t i = 0; i < limbs.size(); ++i) {
    limbs[i] = std::bit_cast<int64_t>(LoadU64(from + kLimbs + i * sizeof(uint64_t)));
  }
  if (!read.partial.sum.Set(limbs)) return Wrong("a limb of the sum is out of its range");
  for (uint32_t i = 0; i < entries; ++i) {
    const char* entry = from + kTop + i * kEntryBytes;
    read.partial.top.push_back(
        {.key = LoadU64(entry), .column = LoadU32(entry + 8), .value = LoadF32(entry + 12)});
    if (std::isnan(read.partial.top.back().value)) return Wrong("NaN among the entries");
  }
  return read;
}

v1::Reduction ToProto(const ReduceQuery& query) {
  v1::Reduction reduction;
  reduction.set_op(static_cast<v1::Reduction::Op>(query.op));
  reduction.set_first(query.first);
  reduction.set_last(query.last);
  reduction.set_column_plus_one(query.column.has_value() ? *query.column + 1 : 0);
  reduction.set_k(query.k);
  reduction.set_slice_values(query.slice_values);
  return reduction;
}

ReduceQuery QueryFromProto(const v1::Reduction& reduction) {
  ReduceQuery query;
  // What does not fit a byte is no known op either.
  query.op = static_cast<table::ReduceOp>(std::clamp(static_cast<int>(reduction.op()), 0, 255));
  query.first = reduction.first();
  query.last = reduction.last();
  if (reduction.column_plus_one() > 0) query.column = reduction.column_plus_one() - 1;
  query.k = reduction.k();
  if (reduction.slice_values() > 0) {
    query.slice_values = std::min(reduction.slice_values(), ReduceQuery::kSliceValues);
  }
  return query;
}

}  // namespace paceline::wire
