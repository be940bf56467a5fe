#include "examples/lda/outcome.h"

#include "absl/strings/str_format.h"
#include "examples/lib/progress.h"
#include "examples/lib/report.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {

std::string FormatOutcome(const LdaOptions& options, const LdaOutcome& outcome) {
  std::string text;
  AppendRow("", "cluster", "one process", &text);
  AppendRow("held-out perplexity", 1, outcome.perplexity, outcome.reference_perplexity, &text);
  AppendRow("seconds", 2, outcome.totals.seconds, outcome.reference_seconds, &text);
  AppendRow("tokens/s", Grouped(static_cast<uint64_t>(Rate(outcome.totals.examples, outcome.totals.seconds))),
            Grouped(static_cast<uint64_t>(Rate(outcome.totals.examples, outcome.reference_seconds))), &text);
  absl::StrAppendFormat(&text, "held-out perplexity without topics: %.1f\n", outcome.unigram_perplexity);
  if (outcome.tokens_repaired.value_or(0) > 0) {
    absl::StrAppendFormat(&text,
                          "workers were killed: %s of %s tokens were counted amiss, and are counted anew\n",
                          Grouped(*outcome.tokens_repaired), Grouped(outcome.tokens));
  }
  text += FormatTotals(options, outcome.totals);
  text += ExplainDifference("held-out perplexity", outcome.perplexity, outcome.reference_perplexity,
                            outcome.totals, "a larger --batches");
  return text;
}

std::string OutcomeJson(const LdaOptions& options, const LdaOutcome& outcome) {
  nlohmann::ordered_json json = {
      {"perplexity", outcome.perplexity},
      {"reference_perplexity", outcome.reference_perplexity},
      {"unigram_perplexity", outcome.unigram_perplexity},
      {"reference_seconds", outcome.reference_seconds},
      {"topics", options.topics},
      {"sweeps", options.sweeps},
      {"tokens", outcome.tokens},
      {"loss", "nats a token"},
      {"reference_curve", CurveJson(outcome.reference_curve, outcome.tokens)},
  };
  if (outcome.tokens_repaired.has_value()) json["tokens_repaired"] = *outcome.tokens_repaired;
  json.update(CommonJson(options, outcome.totals, outcome.tokens));
  return json.dump(2) + "\n";
}

}  // namespace paceline::examples
