#include "libs/filter/filter.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/text.h"

namespace paceline::filter {
namespace {

constexpr absl::string_view kNames[] = {"keys", "delta", "f16", "bf16", "int8", "lz4", "zstd"};
static_assert(std::size(kNames) == kFilters);

std::optional<Filter> FilterOf(uint64_t number) {
  if (number == 0 || number > kFilters) return std::nullopt;
  return static_cast<Filter>(number);
}

std::optional<Filter> FilterNamed(absl::string_view name) {
  for (uint32_t i = 0; i < kFilters; ++i) {
    if (kNames[i] == name) return static_cast<Filter>(i + 1);
  }
  return std::nullopt;
}

}  // namespace

absl::string_view NameOf(Filter filter) {
  return kNames[static_cast<uint32_t>(filter) - 1];
}

FilterSet FilterSet::All() {
  return OfKeys() | OfValues();
}

Precision FilterSet::precision() const {
  if (Has(Filter::kF16)) return Precision::kF16;
  if (Has(Filter::kBf16)) return Precision::kBf16;
  return Has(Filter::kInt8) ? Precision::kInt8 : Precision::kF32;
}

std::optional<Filter> FilterSet::compression() const {
  if (Has(Filter::kLz4)) return Filter::kLz4;
  return Has(Filter::kZstd) ? std::optional(Filter::kZstd) : std::nullopt;
}

absl::Status FilterSet::Check() const {
  if (Has(Filter::kF16) + Has(Filter::kBf16) + Has(Filter::kInt8) > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "filters: ", ToText(*this), "; at most one of f16, bf16 and int8 goes with a direction"));
  }
  if (Has(Filter::kLz4) && Has(Filter::kZstd)) {
    return absl::InvalidArgumentError(
        absl::StrCat("filters: ", ToText(*this), "; at most one of lz4 and zstd goes with a direction"));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> FilterSet::Numbers() const {
  std::vector<uint32_t> numbers;
  for (uint32_t number = 1; number <= kFilters; ++number) {
    if (Has(static_cast<Filter>(number))) numbers.push_back(number);
  }
  return numbers;
}

FilterSet KnownOf(absl::Span<const uint32_t> numbers) {
  FilterSet known;
  for (const uint32_t number : numbers) {
    if (const auto filter = FilterOf(number)) known.Add(*filter);
  }
  return known;
}

absl::StatusOr<FilterSet> AppliedOf(absl::Span<const uint32_t> numbers, FilterSet agreed) {
  FilterSet applied;
  uint32_t before = 0;
  for (const uint32_t number : numbers) {
    const auto filter = FilterOf(number);
    if (!filter.has_value() || !agreed.Has(*filter)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "filters: ", number, " is unknown, or was not agreed with the stream's Hello; agreed: ",
          agreed.empty() ? "none" : ToText(agreed)));
    }
    if (number <= before) {
      return absl::InvalidArgumentError(absl::StrCat("filters: ", number, " after ", before,
                                                     "; they are named by ascending numbers, once"));
    }
    before = number;
    applied.Add(*filter);
  }
  if (absl::Status wrong = applied.Check(); !wrong.ok()) return wrong;
  return applied;
}

absl::StatusOr<LinkFilters> ParseFilters(absl::string_view text) {
  LinkFilters filters;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    item = absl::StripAsciiWhitespace(item);
    absl::string_view name = item;
    const bool push_only = absl::ConsumePrefix(&name, "push:");
    const bool pull_only = !push_only && absl::ConsumePrefix(&name, "pull:");
    const std::optional<Filter> filter = FilterNamed(name);
    if (!filter.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("filters: '", Escaped(std::string(item)),
                                                     "'; expected one of ", absl::StrJoin(kNames, ", "),
                                                     ", for one direction with push: or pull: before it"));
    }
    if (!pull_only) filters.push.Add(*filter);
    if (!push_only) filters.pull.Add(*filter);
  }
  for (const FilterSet set : {filters.push, filters.pull}) {
    if (absl::Status wrong = set.Check(); !wrong.ok()) return wrong;
  }
  return filters;
}

std::string ToText(FilterSet filters) {
  std::vector<absl::string_view> names;
  for (const uint32_t number : filters.Numbers()) names.push_back(kNames[number - 1]);
  return absl::StrJoin(names, ",");
}

}  // namespace paceline::filter
