#include "examples/matrix_factorization/outcome.h"

#include "absl/strings/str_format.h"
#include "examples/lib/progress.h"
#include "examples/lib/report.h"
#include "examples/matrix_factorization/factors.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {

FactorScore ScoreOf(const SplitRatings& split, const FactorRows& model) {
  return {.test_rmse = RootMeanSquaredError(split.test, split, model),
          .train_rmse = RootMeanSquaredError(split.train, split, model)};
}

std::string FormatOutcome(const FactorOptions& options, const FactorOutcome& outcome) {
  const FactorScore &cluster = outcome.cluster, &reference = outcome.reference;
  std::string text;
  AppendRow("", "cluster", "one process", &text);
  AppendRow("held-out RMSE", 4, cluster.test_rmse, reference.test_rmse, &text);
  AppendRow("training RMSE", 4, cluster.train_rmse, reference.train_rmse, &text);
  AppendRow("seconds", 2, cluster.seconds, reference.seconds, &text);
  AppendRow("ratings/s", Grouped(static_cast<uint64_t>(Rate(outcome.totals.examples, cluster.seconds))),
            Grouped(static_cast<uint64_t>(Rate(outcome.totals.examples, reference.seconds))), &text);
  absl::StrAppendFormat(&text, "held-out RMSE of the mean alone: %.4f\n", outcome.mean_test_rmse);
  text += FormatTotals(options, outcome.totals);
  text += ExplainDifference("held-out RMSE", cluster.test_rmse, reference.test_rmse, outcome.totals,
                            "a smaller --batch or --lr");
  return text;
}

std::string OutcomeJson(const FactorOptions& options, const FactorOutcome& outcome) {
  nlohmann::ordered_json json = {
      {"test_rmse", outcome.cluster.test_rmse},
      {"train_rmse", outcome.cluster.train_rmse},
      {"reference_test_rmse", outcome.reference.test_rmse},
      {"reference_train_rmse", outcome.reference.train_rmse},
      {"reference_seconds", outcome.reference.seconds},
      {"mean_test_rmse", outcome.mean_test_rmse},
      {"rank", options.rank},
      {"epochs", options.epochs},
      {"loss", "squared error"},
      {"reference_curve", CurveJson(outcome.reference_curve, outcome.ratings)},
  };
  json.update(CommonJson(options, outcome.totals, outcome.ratings));
  return json.dump(2) + "\n";
}

}  // namespace paceline::examples
