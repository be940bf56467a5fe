#include "paceline/count_min.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "libs/ring/hash.h"

namespace paceline {
namespace {

constexpr uint32_t kDepthMax = 32;

// Adds, and keeps what the rounding of a sum has lost for the next one (W. Kahan: Further Remarks on Reducing
// Truncation Errors. CACM 8, 1965): an f32 to which 1 is added would stay at 2^24. The slot's name tells
// sketches of as many cells but other rows apart.
Expression RuleOf(const CountMinOptions& options) {
  const std::string lost = absl::StrCat("lost_of_", options.depth);
  return {.slots = {lost},
          .params = {},
          .code = absl::StrCat("y = g - ", lost, "; t = w + y; ", lost, " = (t - w) - y; w = t")};
}

uint64_t CellIn(uint32_t row, uint64_t key, uint64_t width) {
  return row * width + (((ring::Mix64(row + 1, key) >> 32) * width) >> 32);
}

}  // namespace

CountMinOptions CountMinOptions::For(double epsilon, double delta) {
  const double width = std::ceil(std::exp(1.0) / epsilon);
  const double depth = std::ceil(std::log(1 / delta));
  return {.width = static_cast<uint32_t>(std::clamp(width, 1.0, 4294967295.0)),
          .depth = static_cast<uint32_t>(std::clamp(depth, 1.0, double{kDepthMax}))};
}

absl::StatusOr<CountMin> CountMin::Open(Client& client, absl::string_view name,
                                        const CountMinOptions& options, const Consistency& consistency) {
  if (options.width == 0 || options.depth == 0 || options.depth > kDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("sketch '", name, "': width ", options.width, ", depth ", options.depth,
                     "; expected a width of at least 1 and a depth of 1 to ", kDepthMax));
  }
  if (std::holds_alternative<Bsp>(consistency)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sketch '", name, "': consistency: found Bsp, which sums the counts of a clock as f32 and so ",
        "loses small ones; expected another, as Ssp{.staleness = 0}"));
  }
  absl::StatusOr<Table> table =
      client.OpenOrCreate(name, Ranged{.rows = uint64_t{options.width} * options.depth,
                                       .dim = 1,
                                       .rule = RuleOf(options),
                                       .consistency = consistency});
  if (!table.ok()) return table.status();
  return CountMin(*std::move(table), options);
}

std::vector<uint64_t> CountMin::CellsOf(uint64_t key, const CountMinOptions& options) {
  std::vector<uint64_t> cells;
  for (uint32_t row = 0; row < options.depth; ++row) cells.push_back(CellIn(row, key, options.width));
  return cells;
}

std::vector<uint64_t> CountMin::CellsOf(absl::Span<const uint64_t> keys) const {
  std::vector<uint64_t> cells;
  cells.reserve(keys.size() * options_.depth);
  for (const uint64_t key : keys) {
    for (uint32_t row = 0; row < options_.depth; ++row) cells.push_back(CellIn(row, key, options_.width));
  }
  return cells;
}

Future<void> CountMin::AddAsync(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> counts,
                                const PushOptions& options) {
  if (!counts.empty() && counts.size() != keys.size()) {
    return Future<void>::Ready(
        absl::InvalidArgumentError(absl::StrCat("counts: ", counts.size(), " for ", keys.size(),
                                                " keys; expected one for each key, or none at all")));
  }
  // A value for each cell: what one push adds to a cell is summed before the rule, and must not be by f32.
  absl::btree_map<uint64_t, uint64_t> sums;
  for (size_t i = 0; i < keys.size(); ++i) {
    for (uint32_t row = 0; row < options_.depth; ++row) {
      sums[CellIn(row, keys[i], options_.width)] += counts.empty() ? 1 : counts[i];
    }
  }
  std::vector<uint64_t> cells;
  std::vector<float> values;
  cells.reserve(sums.size());
  values.reserve(sums.size());
  for (const auto& [cell, sum] : sums) {
    cells.push_back(cell);
    values.push_back(static_cast<float>(sum));
  }
  return table_.PushAsync(cells, values, options);
}

absl::Status CountMin::Add(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> counts,
                           const PushOptions& options) {
  return AddAsync(keys, counts, options).Get();
}

absl::StatusOr<std::vector<double>> CountMin::Estimate(absl::Span<const uint64_t> keys,
                                                       const PullOptions& options) {
  const absl::StatusOr<std::vector<float>> values = table_.Pull(CellsOf(keys), options);
  if (!values.ok()) return values.status();
  std::vector<double> estimates;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto cells = values->begin() + static_cast<std::ptrdiff_t>(i * options_.depth);
    estimates.push_back(*std::min_element(cells, cells + options_.depth));
  }
  return estimates;
}

absl::StatusOr<double> CountMin::Total() {
  const absl::StatusOr<Reduced> sum = table_.Reduce(Reduction::kSum, {.count = options_.width});
  if (!sum.ok()) return sum.status();
  return sum->value;
}

}  // namespace paceline
