#include "services/coordinator/metadata/text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "services/coordinator/metadata/options.h"

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

absl::Status CheckName(absl::string_view field, absl::string_view name, size_t bytes_max) {
  constexpr absl::string_view kAlso = "._-/:";
  const bool allowed = std::all_of(name.begin(), name.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(kAlso, c);
  });
  if (!name.empty() && name.size() <= bytes_max && allowed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", absl::CHexEscape(name.substr(0, bytes_max)),
                                                 "'; expected 1 to ", bytes_max,
                                                 " letters, digits and characters of ", kAlso));
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", text.size(), " bytes; expected at most ", bytes_max));
}

absl::Status CheckFeatureLevel(uint32_t level) {
  if (level >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feature_level: ", level,
                                                 "; expected the newest level the sender "
                                                 "speaks, 1 or more (this coordinator speaks ",
                                                 kFeatureLevel, ")"));
}

absl::Status TooMany(absl::string_view what, size_t limit, absl::string_view remedy) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": there are already ", limit, ", the most there may be; ", remedy));
}

}  // namespace paceline::coordinator
