#include "examples/lib/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/lib/progress.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

// The names that a report and its JSON use, in their order.
std::array<std::pair<const char*, double>, 8> Causes(const WaitSeconds& wait) {
  return {{{"staleness", wait.staleness},
           {"queue", wait.queue},
           {"network", wait.network},
           {"route", wait.route},
           {"back_pressure", wait.back_pressure},
           {"work", wait.work},
           {"value_bound", wait.value_bound},
           {"commit", wait.commit}}};
}

std::string Workers(const JobOptions& options) {
  return absl::StrCat(options.workers, options.workers == 1 ? " worker" : " workers");
}

void AppendTime(const JobOptions& options, const Totals& totals, std::string* text) {
  const double all = std::max(totals.worker_seconds, 1e-9);
  absl::StrAppendFormat(text, "\ntime of %s together\n", Workers(options));
  const auto line = [&](absl::string_view name, double seconds) {
    absl::StrAppendFormat(text, "  %-18s%12.2f s%7.1f %%\n", name, seconds, 100 * seconds / all);
  };
  line("computing", totals.worker_seconds - totals.blocked_seconds);
  line("in calls", totals.blocked_seconds);
}

void AppendWaits(const JobOptions& options, const WaitSeconds& wait, std::string* text) {
  absl::StrAppendFormat(text, "\nwaited, %s together\n", Workers(options));
  for (const auto& [cause, seconds] : Causes(wait)) {
    absl::StrAppendFormat(text, "  %-18s%12.2f s\n", cause, seconds);
  }
  absl::StrAppendFormat(text, "  %-18s%12.2f s\n", "total", wait.total());
}

void AppendStaleness(const std::map<uint64_t, uint64_t>& staleness_rows, std::string* text) {
  uint64_t all = 0;
  for (const auto& [clocks, rows] : staleness_rows) all += rows;
  absl::StrAppendFormat(text, "\nobserved staleness, mean %.2f\n  %-6s%24s%9s\n",
                        MeanStaleness(staleness_rows), "clocks", "rows", "share");
  const auto line = [&](const std::string& clocks, uint64_t rows) {
    absl::StrAppendFormat(text, "  %6s%24s%7.1f %%\n", clocks, Grouped(rows),
                          100 * static_cast<double>(rows) / static_cast<double>(all));
  };
  // Each by itself up to 8, as bounds usually are; then 9 to 16, 17 to 32 ...: without a bound there may be
  // any.
  uint64_t last = 8, gathered = 0;
  for (auto it = staleness_rows.begin(); it != staleness_rows.end(); ++it) {
    if (it->first <= 8) {
      line(absl::StrCat(it->first), it->second);
      continue;
    }
    while (it->first > 2 * last) last *= 2;
    gathered += it->second;
    if (const auto next = std::next(it); next != staleness_rows.end() && next->first <= 2 * last) continue;
    line(absl::StrCat(last + 1, "-", 2 * last), std::exchange(gathered, 0));
  }
}

}  // namespace

void AppendRow(absl::string_view name, const std::string& cluster, const std::string& reference,
               std::string* text) {
  absl::StrAppendFormat(text, "%-20s%14s%14s\n", name, cluster, reference);
}

void AppendRow(absl::string_view name, int decimals, double cluster, double reference, std::string* text) {
  AppendRow(name, absl::StrFormat("%.*f", decimals, cluster), absl::StrFormat("%.*f", decimals, reference),
            text);
}

double Rate(uint64_t examples, double seconds) {
  return seconds > 0 ? static_cast<double>(examples) / seconds : 0;
}

std::string FormatTotals(const JobOptions& options, const Totals& totals) {
  std::string text;
  AppendTime(options, totals, &text);
  AppendWaits(options, totals.wait, &text);
  AppendStaleness(totals.staleness_rows, &text);
  if (totals.trained_again.has_value()) {
    absl::StrAppendFormat(&text, "\nall examples of all passes are trained, %s of them once more\n",
                          Grouped(*totals.trained_again));
  }
  absl::StrAppendFormat(
      &text, "\nrows pushed %s, pulled %s, read from the workers' caches %s; parts sent again %s\n",
      Grouped(totals.rows_pushed), Grouped(totals.rows_pulled), Grouped(totals.rows_from_cache),
      Grouped(totals.retries));
  return text;
}

std::string FormatBeyond(const JobOptions& options, const Totals& totals, double one_process_seconds) {
  constexpr double kWorthALine = 0.005;
  const double beyond = totals.worker_seconds - one_process_seconds;
  if (beyond <= 0) return "";
  std::string text = absl::StrFormat("\nbeyond one process's %.2f s: %.2f s of %s together\n",
                                     one_process_seconds, beyond, Workers(options));
  const auto line = [&](absl::string_view name, double seconds) {
    if (std::abs(seconds) < kWorthALine * beyond) return;
    absl::StrAppendFormat(&text, "  %-18s%12.2f s%7.1f %%\n", name, seconds, 100 * seconds / beyond);
  };
  line("computing", totals.worker_seconds - totals.blocked_seconds - one_process_seconds);
  line("the client's work", totals.blocked_seconds - totals.blocked.total());
  for (const BlockedCause& cause : kBlockedCauses) line(cause.name, totals.blocked.*cause.seconds);
  return text;
}

std::string ExplainDifference(absl::string_view measure, double cluster, double reference,
                              const Totals& totals, absl::string_view remedy) {
  constexpr double kWorthSaying = 0.02;
  const double ratio = cluster / reference;
  if (ratio <= 1 + kWorthSaying) return "";
  std::string text = absl::StrFormat("\nThe cluster's %s is %.0f %% above that of one process. ", measure,
                                     100 * (ratio - 1));
  const double mean = MeanStaleness(totals.staleness_rows);
  if (mean < kWorthSaying) {
    absl::StrAppend(&text, "Its rows were not stale: that is not why.\n");
    return text;
  }
  absl::StrAppendFormat(
      &text,
      "Its rows were %.1f clocks old on average, %d at most: updates were computed on a model "
      "that lacked so many updates of each other worker. --model ssp:S with a smaller S bounds "
      "that; %s bears more of it.\n",
      mean, MaxStaleness(totals.staleness_rows), remedy);
  return text;
}

nlohmann::ordered_json CommonJson(const JobOptions& options, const Totals& totals,
                                  uint64_t examples_per_pass) {
  nlohmann::ordered_json waits, staleness = nlohmann::ordered_json::object();
  for (const auto& [cause, seconds] : Causes(totals.wait)) waits[cause] = seconds;
  for (const auto& [clocks, rows] : totals.staleness_rows) staleness[absl::StrCat(clocks)] = rows;
  nlohmann::ordered_json json = {
      {"seconds", totals.seconds},
      {"examples_per_second", Rate(totals.examples, totals.seconds)},
      {"wait_seconds", totals.wait.total()},
      {"wait_seconds_by_cause", waits},
      {"worker_seconds", totals.worker_seconds},
      {"blocked_seconds", totals.blocked_seconds},
      {"observed_staleness_histogram", staleness},
      {"mean_staleness", MeanStaleness(totals.staleness_rows)},
      {"rows_pushed", totals.rows_pushed},
      {"rows_pulled", totals.rows_pulled},
      {"bytes_pulled", totals.bytes_pulled},
      {"rows_from_cache", totals.rows_from_cache},
      {"workers", options.workers},
      {"model", options.model},
      {"seed", options.seed},
      {"curve", CurveJson(totals.curve, examples_per_pass)},
  };
  if (totals.trained_again.has_value()) json["trained_again"] = *totals.trained_again;
  return json;
}

nlohmann::ordered_json CurveJson(const std::vector<LossPoint>& curve, uint64_t examples_per_pass) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LossPoint& point : curve) {
    json.push_back({{"pass", Rate(point.examples, static_cast<double>(examples_per_pass))},
                    {"clock", point.clock},
                    {"seconds", point.seconds},
                    {"loss", point.loss}});
  }
  return json;
}

}  // namespace paceline::examples
