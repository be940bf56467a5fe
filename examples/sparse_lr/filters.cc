#include "examples/sparse_lr/filters.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "examples/lib/progress.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

// The objective moves by less than a 1,000th (kkt_training_test).
constexpr double kKktShare = 0.1;
constexpr uint64_t kRowBytes = 8 + 4;  // key and gradient

absl::StatusOr<double> ParseKkt(absl::string_view word) {
  if (word == "kkt") return kKktShare;
  double share = 0;
  absl::string_view number = word;
  if (absl::ConsumePrefix(&number, "kkt:") && absl::SimpleAtod(number, &share) && share > 0 && share <= 1)
    return share;
  return absl::InvalidArgumentError(
      absl::StrCat("--filters: '", word, "': expected kkt or kkt:SHARE, above 0 and at most 1"));
}

Packing PackingOf(PushPrecision precision) {
  switch (precision) {
    case PushPrecision::kF16:
      return Packing::kF16;
    case PushPrecision::kBf16:
      return Packing::kBf16;
    case PushPrecision::kInt8:
      return Packing::kInt8;
    case PushPrecision::kF32:
      break;
  }
  return Packing::kF32;
}

double Share(uint64_t part, uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}

// What was given and not sent; of a range that was sent by key that may be less than nothing.
uint64_t Less(uint64_t given, uint64_t sent) {
  return given > sent ? given - sent : 0;
}

}  // namespace

absl::StatusOr<Filters> ParseFilters(absl::string_view text) {
  Filters filters;
  std::vector<absl::string_view> push;
  std::vector<absl::string_view> link;
  for (const absl::string_view untrimmed : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const absl::string_view word = absl::StripAsciiWhitespace(untrimmed);
    if (IsPushFilter(word)) {
      push.push_back(word);
    } else if (word.substr(0, word.find(':')) == "kkt") {
      const absl::StatusOr<double> share = ParseKkt(word);
      if (!share.ok()) return share.status();
      filters.kkt = *share;
    } else {
      link.push_back(word);
    }
  }
  absl::StatusOr<PushFilter> parsed = ParsePushFilter(absl::StrJoin(push, ","));
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("--filters: ", parsed.status().message()));
  filters.push = *std::move(parsed);
  const absl::StatusOr<LinkFilters> travel = ParseLinkFilters(absl::StrJoin(link, ","));
  if (!travel.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--", travel.status().message(),
                                                   "; or kkt[:SHARE], top-k:SHARE, skip:PROBABILITY or "
                                                   "significant:V[/sqrt]"));
  }
  filters.link = *travel;
  if (filters.link.push.packing == Packing::kF32)
    filters.link.push.packing = PackingOf(filters.push.precision);
  return filters;
}

KktFilter MakeKktFilter(const Filters& filters, float lambda1, uint32_t workers) {
  const double own = static_cast<double>(lambda1) / workers;
  return KktFilter({.lambda = static_cast<float>(own),
                    .slack = static_cast<float>(own * (1 - filters.kkt.value_or(0))),
                    .sums = true});
}

std::string FormatFilters(const Filters& filters, const Totals& totals) {
  std::string text;
  if (filters.kkt.has_value()) {
    const KktCounts& kkt = totals.kkt;
    absl::StrAppendFormat(&text,
                          "  %-18s%7.1f %% of %s values not sent, %.1f %% in the last epoch: %s bytes\n",
                          "kkt", 100 * Share(kkt.left_out, kkt.given), Grouped(kkt.given),
                          100 * Share(kkt.late_left_out, kkt.late_given), Grouped(kkt.left_out * kRowBytes));
  }
  if (filters.push.active()) {
    const PushFilterStats& push = totals.push_filter;
    const uint64_t rows = Less(push.rows_given, push.rows_sent);
    absl::StrAppendFormat(&text, "  %-18s%7.1f %% of %s rows not sent: %s bytes\n", ToString(filters.push),
                          100 * Share(rows, push.rows_given), Grouped(push.rows_given),
                          Grouped(Less(push.bytes_given, push.bytes_sent)));
  }
  for (const auto& [name, use] : totals.link_filters) {
    absl::StrAppendFormat(&text, "  %-18s%7.1f %% of %s bytes not sent, in %.2f s of the workers\n", name,
                          100 * Share(Less(use.bytes_plain, use.bytes_coded), use.bytes_plain),
                          Grouped(use.bytes_plain), use.seconds);
  }
  return text.empty() ? text : "\nfilters\n" + text;
}

nlohmann::ordered_json FiltersJson(const Filters& filters, const Totals& totals) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (filters.kkt.has_value()) {
    const KktCounts& kkt = totals.kkt;
    json["kkt"] = {{"values", kkt.given},
                   {"values_not_sent", kkt.left_out},
                   {"share", Share(kkt.left_out, kkt.given)},
                   {"last_epoch_share", Share(kkt.late_left_out, kkt.late_given)},
                   {"bytes_not_sent", kkt.left_out * kRowBytes}};
  }
  if (filters.push.active()) {
    const PushFilterStats& push = totals.push_filter;
    const uint64_t rows = Less(push.rows_given, push.rows_sent);
    json["push"] = {{"filter", ToString(filters.push)},
                    {"rows", push.rows_given},
                    {"rows_not_sent", rows},
                    {"share", Share(rows, push.rows_given)},
                    {"bytes_not_sent", Less(push.bytes_given, push.bytes_sent)}};
  }
  for (const auto& [name, use] : totals.link_filters) {
    const uint64_t saved = Less(use.bytes_plain, use.bytes_coded);
    json["link"][name] = {{"bytes", use.bytes_plain},
                          {"bytes_not_sent", saved},
                          {"share", Share(saved, use.bytes_plain)},
                          {"seconds", use.seconds}};
  }
  return json;
}

}  // namespace paceline::examples
