#include "services/coordinator/metadata/facts/text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "services/coordinator/metadata/facts/options.h"

namespace paceline::coordinator {

std::string Ranges(const std::set<uint32_t>& numbers) {
  constexpr size_t kRangesMax = 8;
  std::vector<std::string> ranges;
  for (auto it = numbers.begin(); it != numbers.end();) {
    if (ranges.size() == kRangesMax) {
      ranges.push_back(absl::StrCat("… (", numbers.size(), " in all)"));
      break;
    }
    const uint32_t first = *it;
    uint32_t last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    ranges.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
  }
  return absl::StrJoin(ranges, ", ");
}

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::string RefusesConnections(absl::string_view who, uint64_t refused, uint64_t descriptors) {
  return absl::StrCat(
      who, " refuses connections, ", refused, " so far: of its ", descriptors,
      " descriptors none is left for them; see what holds them, or raise the limit (ulimit -n)");
}

absl::Status CheckFeatureLevel(uint32_t level) {
  if (level >= kOldestFeatureLevel) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("feature_level: ", level, "; expected the newest level the sender speaks, ",
                   kOldestFeatureLevel, " or more (this coordinator speaks ", kFeatureLevel, ")"));
}

absl::Status TooMany(absl::string_view what, size_t limit, absl::string_view remedy) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": there are already ", limit, ", the most there may be; ", remedy));
}

}  // namespace paceline::coordinator
