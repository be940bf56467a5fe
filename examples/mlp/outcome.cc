#include "examples/mlp/outcome.h"

#include "absl/strings/str_format.h"
#include "examples/lib/progress.h"
#include "examples/lib/report.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {

std::string FormatOutcome(const MlpOptions& options, const MlpOutcome& outcome) {
  const Totals& totals = outcome.totals;
  std::string text;
  AppendRow("", "cluster", "one process", &text);
  AppendRow("test accuracy", 4, outcome.test_accuracy, outcome.reference_test_accuracy, &text);
  AppendRow("seconds", 2, totals.seconds, outcome.reference_seconds, &text);
  AppendRow("images/s", Grouped(static_cast<uint64_t>(Rate(totals.examples, totals.seconds))),
            Grouped(static_cast<uint64_t>(Rate(totals.examples, outcome.reference_seconds))), &text);
  absl::StrAppendFormat(&text, "weights: %s\n", Grouped(outcome.weights));
  text += FormatTotals(options, totals);
  text += ExplainDifference("share of wrong images", 1 - outcome.test_accuracy,
                            1 - outcome.reference_test_accuracy, totals, "a smaller --batch or --lr");
  return text;
}

std::string OutcomeJson(const MlpOptions& options, const MlpOutcome& outcome) {
  nlohmann::ordered_json json = {
      {"test_accuracy", outcome.test_accuracy},
      {"reference_test_accuracy", outcome.reference_test_accuracy},
      {"reference_seconds", outcome.reference_seconds},
      {"hidden", options.hidden},
      {"weights", outcome.weights},
      {"epochs", options.epochs},
      {"priorities", !options.fifo},
      {"loss", "cross entropy"},
      {"reference_curve", CurveJson(outcome.reference_curve, outcome.images)},
  };
  json.update(CommonJson(options, outcome.totals, outcome.images));
  return json.dump(2) + "\n";
}

}  // namespace paceline::examples
