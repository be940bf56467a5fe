#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "examples/lib/job_options.h"
#include "examples/lib/totals.h"
#include "nlohmann/json_fwd.hpp"

namespace paceline::examples {

// What every training example tells at its end, of a run on the cluster beside the same in one process.

// A line of the table with the columns "cluster" and "one process".
void AppendRow(absl::string_view name, const std::string& cluster, const std::string& reference,
               std::string* text);
void AppendRow(absl::string_view name, int decimals, double cluster, double reference, std::string* text);

// Examples a second, 0 without a time.
double Rate(uint64_t examples, double seconds);

// Where the workers' time went, how stale what they read was, and what travelled: several lines.
std::string FormatTotals(const JobOptions& options, const Totals& totals);

// Where the time of the workers goes beyond what one process takes for the same training: a short table.
// Causes of less than half a percent are left out.
std::string FormatBeyond(const JobOptions& options, const Totals& totals, double one_process_seconds);

// A cluster that learns less than one process has a reason; the text names it. Empty if `cluster`, of a
// measure that is better the smaller, is within 2 % of `reference`. `remedy` is what bears more staleness.
std::string ExplainDifference(absl::string_view measure, double cluster, double reference,
                              const Totals& totals, absl::string_view remedy);

// The keys that the JSON of every example has, in one object. Times are seconds, waits sums over the workers.
// "curve" is the loss over the passes: of the examples since the point before, at the model they were
// computed on. A pass is `examples_per_pass` examples.
nlohmann::ordered_json CommonJson(const JobOptions& options, const Totals& totals,
                                  uint64_t examples_per_pass);

// A loss curve as such a "curve".
nlohmann::ordered_json CurveJson(const std::vector<LossPoint>& curve, uint64_t examples_per_pass);

}  // namespace paceline::examples
