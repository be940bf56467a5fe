// Filters of pushes as text.
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "paceline/push_filter.h"

namespace paceline {
namespace {

constexpr std::array<std::pair<absl::string_view, PushPrecision>, 3> kPrecisions = {
    {{"f16", PushPrecision::kF16}, {"bf16", PushPrecision::kBf16}, {"int8", PushPrecision::kInt8}}};
constexpr std::array<absl::string_view, 3> kSelections = {"top-k", "skip", "significant"};

absl::string_view NameIn(absl::string_view word) {
  return word.substr(0, word.find(':'));
}

absl::Status Wrong(absl::string_view word, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("push filter: '", word, "': expected ", expected));
}

absl::Status TakePrecision(absl::string_view word, PushPrecision precision, PushFilter& filter) {
  if (filter.precision != PushPrecision::kF32) return Wrong(word, "one of f16, bf16 and int8 at most");
  filter.precision = precision;
  return absl::OkStatus();
}

absl::Status TakeSelection(absl::string_view word, PushFilter& filter) {
  if (filter.top_k.has_value() || filter.skip.has_value() || filter.significant.has_value()) {
    return Wrong(word, "one of top-k, skip and significant at most");
  }
  const absl::string_view name = NameIn(word);
  absl::string_view number = word.substr(name.size());
  absl::ConsumePrefix(&number, ":");
  filter.decays = name == "significant" && absl::ConsumeSuffix(&number, "/sqrt");
  double value = 0;
  const bool read = absl::SimpleAtod(number, &value) && std::isfinite(value);
  if (name == "top-k") {
    if (!read || !(value > 0 && value <= 1)) return Wrong(word, "top-k:SHARE, above 0 and at most 1");
    filter.top_k = value;
  } else if (name == "skip") {
    if (!read || !(value >= 0 && value < 1)) return Wrong(word, "skip:PROBABILITY, at least 0 and below 1");
    filter.skip = value;
  } else {
    if (!read || !(value > 0)) return Wrong(word, "significant:V or significant:V/sqrt, V above 0");
    filter.significant = value;
  }
  return absl::OkStatus();
}

absl::Status Take(absl::string_view word, PushFilter& filter) {
  for (const auto& [name, precision] : kPrecisions) {
    if (word == name) return TakePrecision(word, precision, filter);
  }
  for (const absl::string_view name : kSelections) {
    if (NameIn(word) == name) return TakeSelection(word, filter);
  }
  return Wrong(word, "top-k:SHARE, skip:PROBABILITY, significant:V[/sqrt], f16, bf16 or int8");
}

}  // namespace

absl::StatusOr<PushFilter> ParsePushFilter(absl::string_view text) {
  PushFilter filter;
  if (text.empty()) return filter;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    if (absl::Status taken = Take(absl::StripAsciiWhitespace(word), filter); !taken.ok()) return taken;
  }
  return filter;
}

bool IsPushFilter(absl::string_view word) {
  const absl::string_view name = NameIn(word);
  for (const auto& [precision, value] : kPrecisions) {
    if (name == precision) return true;
  }
  for (const absl::string_view selection : kSelections) {
    if (name == selection) return true;
  }
  return false;
}

std::string ToString(const PushFilter& filter) {
  std::vector<std::string> words;
  if (filter.top_k.has_value()) words.push_back(absl::StrCat("top-k:", *filter.top_k));
  if (filter.skip.has_value()) words.push_back(absl::StrCat("skip:", *filter.skip));
  if (filter.significant.has_value()) {
    words.push_back(absl::StrCat("significant:", *filter.significant, filter.decays ? "/sqrt" : ""));
  }
  for (const auto& [name, precision] : kPrecisions) {
    if (filter.precision == precision) words.emplace_back(name);
  }
  return absl::StrJoin(words, ",");
}

}  // namespace paceline
