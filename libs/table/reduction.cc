#include "libs/table/reduction.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace paceline::table {
namespace {

// True if a comes before b in a top-k.
struct Before {
  ReduceOp op;
  bool operator()(const TopEntry& a, const TopEntry& b) const {
    const float of_a = op == ReduceOp::kTopAbs ? std::fabs(a.value) : a.value;
    const float of_b = op == ReduceOp::kTopAbs ? std::fabs(b.value) : b.value;
    if (of_a != of_b) return of_a > of_b;
    return a.key != b.key ? a.key < b.key : a.column < b.column;
  }
};

uint64_t LastKey(const Schema& schema, const ReduceQuery& query) {
  return schema.rows == 0 ? query.last : std::min(query.last, schema.rows - 1);
}

SliceEnd ReducePages(const TableStore& store, const ReduceQuery& query, uint64_t cursor, Partial* partial) {
  const uint32_t dim = store.schema().dim;
  uint64_t gone_through = 0;
  SliceEnd end;
  store.ForEachPage(cursor, [&](const Page& page) {
    if (gone_through >= query.slice_values) {
      end = {.more = true, .cursor = page.range().start};
      return false;
    }
    page.ForEachRow([&](uint64_t key, size_t row) {
      if (key < query.first || key > query.last) return;
      partial->AddRow(query, key, {page.Values(row), dim});
    });
    gone_through += uint64_t{dim} * page.rows();
    return true;
  });
  return end;
}

// Blocks of one segment are 2^k apart.
SliceEnd ReduceBlocks(const TableStore& store, const ring::Placement& placement, SegmentId segment,
                      const ReduceQuery& query, uint64_t cursor, Partial* partial) {
  const uint32_t dim = store.schema().dim;
  const uint64_t stride = placement.SegmentCount();
  const uint64_t per_block = placement.RowsPerBlock();
  const uint64_t last_key = LastKey(store.schema(), query);
  const uint64_t last_block = placement.BlockOf(last_key);
  uint64_t block = std::max(placement.BlockOf(query.first), cursor);
  if (block > last_block) return {};
  const uint64_t skipped = (uint64_t{segment.v} - placement.OfBlock(block).v) & (stride - 1);
  if (skipped > last_block - block) return {};
  block += skipped;
  std::vector<float> rows;
  for (uint64_t gone_through = 0;; block += stride) {
    const uint64_t from = std::max(query.first, block * per_block);
    const uint64_t count = std::min(last_key - from, (block + 1) * per_block - 1 - from) + 1;
    rows.resize(count * dim);
    store.ReadRange(from, count, rows.data());
    for (uint64_t i = 0; i < count; ++i) partial->AddRow(query, from + i, {rows.data() + i * dim, dim});
    gone_through += count * dim;
    if (last_block - block < stride) return {};
    if (gone_through >= query.slice_values) return {.more = true, .cursor = block + stride};
  }
}

}  // namespace

absl::Status CheckQuery(const Schema& schema, const ReduceQuery& query) {
  if (query.op < ReduceOp::kSum || query.op > ReduceOp::kTopAbs) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction: op ", static_cast<int>(query.op), " is not known; expected 1 to 10"));
  }
  if (query.top() && (query.k == 0 || query.k > ReduceQuery::kTopMax)) {
    return absl::InvalidArgumentError(absl::StrCat("k: ", query.k, "; expected 1 to ", ReduceQuery::kTopMax));
  }
  if (query.column.has_value() && *query.column >= schema.dim) {
    return absl::InvalidArgumentError(absl::StrCat("column: ", *query.column, "; rows have ", schema.dim,
                                                   " values, 0 to ", schema.dim - 1));
  }
  if (query.first > query.last) {
    return absl::InvalidArgumentError(
        absl::StrCat("range: from key ", query.first, " to ", query.last, "; expected at least one key"));
  }
  const bool open_end = query.last == UINT64_MAX;
  if (schema.rows != 0 && (query.first >= schema.rows || (!open_end && query.last >= schema.rows))) {
    return absl::OutOfRangeError(absl::StrCat("range: keys ", query.first, " to ", query.last,
                                              "; the table has keys 0 to ", schema.rows - 1));
  }
  return absl::OkStatus();
}

void Partial::AddTop(const ReduceQuery& query, const TopEntry& entry) {
  const Before before{query.op};  // so that the front of the heap is the one to give way
  if (top.size() >= query.k) {
    if (!before(entry, top.front())) return;
    std::pop_heap(top.begin(), top.end(), before);
    top.pop_back();
  }
  top.push_back(entry);
  std::push_heap(top.begin(), top.end(), before);
}

// The loop is in each case, so that it has no choice in it but the one for NaN.
void Partial::AddRow(const ReduceQuery& query, uint64_t key, absl::Span<const float> row) {
  ++rows;
  const uint32_t first = query.column.value_or(0);
  const size_t end = query.column.has_value() ? size_t{first} + 1 : row.size();
  values += end - first;
  const auto each = [&](auto use) {
    for (size_t column = first; column < end; ++column) {
      const float value = row[column] + 0.0f;  // which makes 0 of −0
      std::isnan(value) ? void(++nans) : use(column, value);
    }
  };
  const auto add = [&](auto term) {
    each([&](size_t, float value) {
      if (std::isinf(value)) {
        ++(value > 0 ? plus_infinities : minus_infinities);
      } else {
        sum.Add(term(value));
      }
    });
  };
  switch (query.op) {
    case ReduceOp::kSum:
      return add([](float value) { return double{value}; });
    case ReduceOp::kL1Norm:
      return add([](float value) { return double{std::fabs(value)}; });
    case ReduceOp::kL2Norm:
      return add([](float value) { return double{value} * double{value}; });
    case ReduceOp::kMaxNorm:
      return each([&](size_t, float value) { max = std::max(max, std::fabs(value)); });
    case ReduceOp::kMax:
      return each([&](size_t, float value) { max = std::max(max, value); });
    case ReduceOp::kMin:
      return each([&](size_t, float value) { min = std::min(min, value); });
    case ReduceOp::kRows:
      return;
    case ReduceOp::kNonZeros:
      return each([&](size_t, float value) { non_zeros += value != 0 ? 1 : 0; });
    case ReduceOp::kTop:
    case ReduceOp::kTopAbs:
      return each([&](size_t column, float value) {
        AddTop(query, {.key = key, .column = static_cast<uint32_t>(column), .value = value});
      });
  }
}

void Partial::Merge(const ReduceQuery& query, const Partial& other) {
  rows += other.rows;
  values += other.values;
  non_zeros += other.non_zeros;
  nans += other.nans;
  plus_infinities += other.plus_infinities;
  minus_infinities += other.minus_infinities;
  max = std::max(max, other.max);
  min = std::min(min, other.min);
  sum.Add(other.sum);
  for (const TopEntry& entry : other.top) AddTop(query, entry);
}

double Partial::Value(ReduceOp op) const {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::kRows:
      return static_cast<double>(rows);
    case ReduceOp::kNonZeros:
      return static_cast<double>(non_zeros + nans);
    case ReduceOp::kSum:
      if (nans > 0 || (plus_infinities > 0 && minus_infinities > 0)) return kNan;
      if (plus_infinities > 0) return kInfinity;
      return minus_infinities > 0 ? -kInfinity : sum.Rounded();
    case ReduceOp::kL1Norm:
    case ReduceOp::kL2Norm:
      if (nans > 0) return kNan;
      if (plus_infinities + minus_infinities > 0) return kInfinity;
      return op == ReduceOp::kL1Norm ? sum.Rounded() : std::sqrt(sum.Rounded());
    case ReduceOp::kMaxNorm:
      return nans > 0 ? kNan : std::max(max, 0.0f);
    case ReduceOp::kMax:
      return nans > 0 ? kNan : max;
    case ReduceOp::kMin:
      return nans > 0 ? kNan : min;
    case ReduceOp::kTop:
    case ReduceOp::kTopAbs:
      break;
  }
  return kNan;
}

std::vector<TopEntry> Partial::Ordered(ReduceOp op) const {
  std::vector<TopEntry> ordered = top;
  std::sort(ordered.begin(), ordered.end(), Before{op});
  return ordered;
}

SliceEnd ReduceSlice(const TableStore& store, const ring::Placement& placement, SegmentId segment,
                     const ReduceQuery& query, uint64_t cursor, Partial* partial) {
  return placement.ranged() ? ReduceBlocks(store, placement, segment, query, cursor, partial)
                            : ReducePages(store, query, cursor, partial);
}

}  // namespace paceline::table
