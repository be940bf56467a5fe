#include "examples/sparse_lr/outcome.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/lib/progress.h"
#include "examples/lib/report.h"
#include "examples/sparse_lr/filters.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

void AppendScores(const Outcome& o, std::string* text) {
  AppendRow("", "cluster", "one process", text);
  AppendRow("held-out log-loss", 4, o.cluster.test.log_loss, o.reference.test.log_loss, text);
  AppendRow("held-out AUC", 4, o.cluster.test.auc, o.reference.test.auc, text);
  AppendRow("held-out accuracy", 4, o.cluster.test.accuracy, o.reference.test.accuracy, text);
  AppendRow("objective", 4, o.cluster.objective, o.reference.objective, text);
  AppendRow("non-zero weights", Grouped(o.cluster.nonzeros), Grouped(o.reference.nonzeros), text);
  AppendRow("seconds", 2, o.cluster.seconds, o.reference.seconds, text);
  AppendRow("examples/s", Grouped(static_cast<uint64_t>(Rate(o.totals.examples, o.cluster.seconds))),
            Grouped(static_cast<uint64_t>(Rate(o.totals.examples, o.reference.seconds))), text);
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
  text += FormatTotals(options, outcome.totals);
  text += FormatFilters(options.filter, outcome.totals);
  text += ExplainDifference("objective", outcome.cluster.objective, outcome.reference.objective,
                            outcome.totals, "a smaller --batch or step");
  text += FormatBeyond(options, outcome.totals, outcome.reference.seconds);
  return text;
}

std::string OutcomeJson(const RunOptions& options, const Outcome& outcome) {
  nlohmann::ordered_json json = CommonJson(options, outcome.totals, outcome.rows);
  json.update({
      {"test_log_loss", outcome.cluster.test.log_loss},
      {"test_auc", outcome.cluster.test.auc},
      {"objective", outcome.cluster.objective},
      {"nonzeros", outcome.cluster.nonzeros},
      {"accuracy", outcome.cluster.test.accuracy},
      {"converged", outcome.not_converged.empty()},
      {"reference_test_log_loss", outcome.reference.test.log_loss},
      {"reference_test_auc", outcome.reference.test.auc},
      {"reference_objective", outcome.reference.objective},
      {"epochs", options.epochs},
      {"l1", options.l1},
  });
  if (!options.filters.empty()) json["filters"] = FiltersJson(options.filter, outcome.totals);
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

}  // namespace paceline::examples
