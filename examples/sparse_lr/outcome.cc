#include "examples/sparse_lr/outcome.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/sparse_lr/progress.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

// The names that a report and its JSON use, in their order.
std::array<std::pair<const char*, double>, 6> Causes(const WaitSeconds& wait) {
  return {{{"staleness", wait.staleness},
           {"queue", wait.queue},
           {"network", wait.network},
           {"route", wait.route},
           {"back_pressure", wait.back_pressure},
           {"commit", wait.commit}}};
}

double Rate(uint64_t examples, double seconds) {
  return seconds > 0 ? static_cast<double>(examples) / seconds : 0;
}

void AppendRow(absl::string_view name, const std::string& cluster, const std::string& reference,
               std::string* text) {
  absl::StrAppendFormat(text, "%-20s%14s%14s\n", name, cluster, reference);
}

void AppendScores(const Outcome& o, std::string* text) {
  const auto row = [&](absl::string_view name, int decimals, double cluster, double reference) {
    AppendRow(name, absl::StrFormat("%.*f", decimals, cluster), absl::StrFormat("%.*f", decimals, reference),
              text);
  };
  AppendRow("", "cluster", "one process", text);
  row("held-out log-loss", 4, o.cluster.test.log_loss, o.reference.test.log_loss);
  row("held-out AUC", 4, o.cluster.test.auc, o.reference.test.auc);
  row("held-out accuracy", 4, o.cluster.test.accuracy, o.reference.test.accuracy);
  row("objective", 4, o.cluster.objective, o.reference.objective);
  AppendRow("non-zero weights", Grouped(o.cluster.nonzeros), Grouped(o.reference.nonzeros), text);
  row("seconds", 2, o.cluster.seconds, o.reference.seconds);
  AppendRow("examples/s", Grouped(static_cast<uint64_t>(Rate(o.examples, o.cluster.seconds))),
            Grouped(static_cast<uint64_t>(Rate(o.examples, o.reference.seconds))), text);
}

void AppendWaits(const RunOptions& options, const WaitSeconds& wait, std::string* text) {
  absl::StrAppendFormat(text, "\nwaited, %d worker%s together\n", options.workers,
                        options.workers == 1 ? "" : "s");
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

// A cluster that learns less than one process has a reason; the text names it.
void AppendDifference(const Outcome& outcome, std::string* text) {
  constexpr double kWorthSaying = 0.02;
  const double ratio = outcome.cluster.objective / outcome.reference.objective;
  if (ratio <= 1 + kWorthSaying) return;
  const double mean = MeanStaleness(outcome.totals.staleness_rows);
  absl::StrAppendFormat(text, "\nThe cluster's objective is %.0f %% above that of one process. ",
                        100 * (ratio - 1));
  if (mean < kWorthSaying) {
    absl::StrAppend(text, "Its rows were not stale: that is not why.\n");
    return;
  }
  absl::StrAppendFormat(
      text,
      "Its rows were %.1f clocks old on average, %d at most: gradients were computed on a model "
      "that lacked so many updates of each other worker. --model ssp:S with a smaller S bounds "
      "that; a smaller --batch or step bears more of it.\n",
      mean, MaxStaleness(outcome.totals.staleness_rows));
}

}  // namespace

Penalties PenaltiesOf(const RunOptions& options) {
  if (options.rule == "sgd") return {};  // it has none
  return {.l1 = options.l1, .l2 = options.l2};
}

Score ScoreOf(const Dataset& train, const Dataset& test, absl::Span<const float> weights,
              const Penalties& penalties) {
  return {.test = Evaluate(test, weights),
          .objective = Objective(train, weights, penalties),
          .nonzeros = NonZeros(weights)};
}

std::string WhyNotConverged(const RunOptions& options, const Dataset& train, const Dataset& test,
                            absl::Span<const float> weights) {
  const Penalties penalties = PenaltiesOf(options);
  const auto losses = [&](absl::Span<const float> model) {
    return Losses{.objective = Objective(train, model, penalties),
                  .held_out = Objective(test, model, Penalties())};
  };
  return NotConverged(losses(weights), losses(Polished(train, weights, penalties)));
}

std::string FormatOutcome(const RunOptions& options, const Outcome& outcome) {
  std::string text;
  AppendScores(outcome, &text);
  AppendWaits(options, outcome.totals.wait, &text);
  AppendStaleness(outcome.totals.staleness_rows, &text);
  absl::StrAppendFormat(
      &text, "\nrows pushed %s, pulled %s, read from the workers' caches %s; parts sent again %s\n",
      Grouped(outcome.totals.rows_pushed), Grouped(outcome.totals.rows_pulled),
      Grouped(outcome.totals.rows_from_cache), Grouped(outcome.totals.retries));
  AppendDifference(outcome, &text);
  return text;
}

std::string OutcomeJson(const RunOptions& options, const Outcome& outcome) {
  nlohmann::ordered_json waits, staleness = nlohmann::ordered_json::object();
  for (const auto& [cause, seconds] : Causes(outcome.totals.wait)) waits[cause] = seconds;
  for (const auto& [clocks, rows] : outcome.totals.staleness_rows) staleness[absl::StrCat(clocks)] = rows;
  const nlohmann::ordered_json json = {
      {"test_log_loss", outcome.cluster.test.log_loss},
      {"test_auc", outcome.cluster.test.auc},
      {"objective", outcome.cluster.objective},
      {"nonzeros", outcome.cluster.nonzeros},
      {"seconds", outcome.cluster.seconds},
      {"examples_per_second", Rate(outcome.examples, outcome.cluster.seconds)},
      {"wait_seconds", outcome.totals.wait.total()},
      {"wait_seconds_by_cause", waits},
      {"observed_staleness_histogram", staleness},
      {"rows_pushed", outcome.totals.rows_pushed},
      {"rows_pulled", outcome.totals.rows_pulled},
      {"bytes_pulled", outcome.totals.bytes_pulled},
      {"rows_from_cache", outcome.totals.rows_from_cache},
      {"reference_test_log_loss", outcome.reference.test.log_loss},
      {"reference_test_auc", outcome.reference.test.auc},
      {"reference_objective", outcome.reference.objective},
      {"accuracy", outcome.cluster.test.accuracy},
      {"converged", outcome.not_converged.empty()},
      {"mean_staleness", MeanStaleness(outcome.totals.staleness_rows)},
      {"workers", options.workers},
      {"model", options.model},
      {"epochs", options.epochs},
      {"l1", options.l1},
  };
  return json.dump(2) + "\n";
}

std::string ModelText(const RunOptions& options, absl::Span<const float> weights) {
  std::string text = absl::StrFormat(
      "# sparse_lr: a line `column weight` for each non-zero weight, columns as in the training data; "
      "l1 %g, epochs %d\n",
      options.l1, options.epochs);
  for (size_t column = 0; column < weights.size(); ++column) {
    if (weights[column] != 0) absl::StrAppendFormat(&text, "%d %.9g\n", column, weights[column]);
  }
  return text;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
  }
  return good ? absl::OkStatus() : absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

}  // namespace paceline::examples
