#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/filter/quantise.h"

// Filters of a link: how keys and values are coded between client and shard. docs/filters.md has the law of
// each, docs/wire.md the bytes. What is decoded is what was encoded, bit for bit.
namespace paceline::filter {

// The numbers are those of the wire (v1::Filter). Frames name the filters that were applied by ascending
// numbers.
enum class Filter : uint32_t {
  kKeys = 1,   // a list of keys that the stream has carried before is named instead of sent
  kDelta = 2,  // keys as differences
  kF16 = 3,    // rows in fewer bits, where they lose nothing by it
  kBf16 = 4,
  kInt8 = 5,
  kLz4 = 6,  // what is left, compressed
  kZstd = 7,
};
inline constexpr uint32_t kFilters = 7;

// As text, in options and metrics: keys, delta, f16, bf16, int8, lz4, zstd.
absl::string_view NameOf(Filter filter);

// Some filters. Plain value.
class FilterSet {
 public:
  constexpr FilterSet() = default;
  constexpr FilterSet(std::initializer_list<Filter> filters) {
    for (const Filter filter : filters) Add(filter);
  }
  static FilterSet All();
  // Those that change values, and keys.
  static constexpr FilterSet OfValues() {
    return {Filter::kF16, Filter::kBf16, Filter::kInt8, Filter::kLz4, Filter::kZstd};
  }
  static constexpr FilterSet OfKeys() { return {Filter::kKeys, Filter::kDelta, Filter::kLz4, Filter::kZstd}; }

  constexpr bool Has(Filter filter) const { return (bits_ & Bit(filter)) != 0; }
  constexpr void Add(Filter filter) { bits_ |= Bit(filter); }
  constexpr void Remove(Filter filter) { bits_ &= ~Bit(filter); }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr FilterSet operator&(FilterSet a, FilterSet b) { return FilterSet(a.bits_ & b.bits_); }
  friend constexpr FilterSet operator|(FilterSet a, FilterSet b) { return FilterSet(a.bits_ | b.bits_); }
  friend constexpr bool operator==(FilterSet, FilterSet) = default;

  // kF32: none. REQUIRES for both: Check().ok().
  Precision precision() const;
  std::optional<Filter> compression() const;
  // INVALID_ARGUMENT: two of them would do the same.
  absl::Status Check() const;
  // Ascending.
  std::vector<uint32_t> Numbers() const;

 private:
  static constexpr uint32_t Bit(Filter filter) { return uint32_t{1} << static_cast<uint32_t>(filter); }
  explicit constexpr FilterSet(uint32_t bits) : bits_(bits) {}

  uint32_t bits_ = 0;
};

// Those of the numbers that are known here: what a peer offers, or takes.
FilterSet KnownOf(absl::Span<const uint32_t> numbers);
// What was applied to a frame. INVALID_ARGUMENT unless the numbers ascend, all of them are in `agreed`, and
// no two do the same.
absl::StatusOr<FilterSet> AppliedOf(absl::Span<const uint32_t> numbers, FilterSet agreed);

// Filters of one table, by the direction that they serve.
struct LinkFilters {
  FilterSet push;
  FilterSet pull;
  friend bool operator==(const LinkFilters&, const LinkFilters&) = default;
};

// From names separated by commas: `keys,delta,lz4`. `push:` or `pull:` before a name: in that direction
// alone. Empty: none. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<LinkFilters> ParseFilters(absl::string_view text);
// "keys,delta"; empty: none.
std::string ToText(FilterSet filters);

}  // namespace paceline::filter
