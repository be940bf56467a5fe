#include "sdk/cpp/src/session/filters.h"

#include <optional>

#include "libs/base/status.h"

namespace paceline {
namespace {

using filter::Filter;
using filter::FilterSet;

FilterSet SetOf(const Filters& filters) {
  FilterSet set;
  if (filters.key_lists) set.Add(Filter::kKeys);
  if (filters.delta_keys) set.Add(Filter::kDelta);
  if (filters.packing == Packing::kF16) set.Add(Filter::kF16);
  if (filters.packing == Packing::kBf16) set.Add(Filter::kBf16);
  if (filters.packing == Packing::kInt8) set.Add(Filter::kInt8);
  if (filters.compression == Compression::kLz4) set.Add(Filter::kLz4);
  if (filters.compression == Compression::kZstd) set.Add(Filter::kZstd);
  return set;
}

Packing PackingOf(filter::Precision precision) {
  switch (precision) {
    case filter::Precision::kF32:
      break;
    case filter::Precision::kF16:
      return Packing::kF16;
    case filter::Precision::kBf16:
      return Packing::kBf16;
    case filter::Precision::kInt8:
      return Packing::kInt8;
  }
  return Packing::kF32;
}

Filters FiltersOf(FilterSet set) {
  const std::optional<Filter> compression = set.compression();
  return {.key_lists = set.Has(Filter::kKeys),
          .delta_keys = set.Has(Filter::kDelta),
          .packing = PackingOf(set.precision()),
          .compression = !compression.has_value()       ? Compression::kNone
                         : *compression == Filter::kLz4 ? Compression::kLz4
                                                        : Compression::kZstd};
}

}  // namespace

absl::StatusOr<LinkFilters> ParseLinkFilters(absl::string_view text) {
  ABSL_ASSIGN_OR_RETURN(const filter::LinkFilters parsed, filter::ParseFilters(text));
  return LinkFilters{.push = FiltersOf(parsed.push), .pull = FiltersOf(parsed.pull)};
}

filter::LinkFilters sdk::ToCore(const LinkFilters& filters) {
  return {.push = SetOf(filters.push), .pull = SetOf(filters.pull)};
}

}  // namespace paceline
