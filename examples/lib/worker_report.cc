#include "examples/lib/worker_report.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace paceline {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WaitSeconds, staleness, queue, network, route, back_pressure, work,
                                   value_bound, commit)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BlockedSeconds, staleness, network, queue, apply, replication,
                                   back_pressure, route, work, coordinator, value_bound)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PushFilterStats, rows_given, rows_sent, bytes_given, bytes_sent, rows_held,
                                   bytes_held)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FilterUse, bytes_plain, bytes_coded, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stats, wait, staleness_rows, rows_pushed, rows_pulled, rows_from_cache,
                                   bytes_pushed, bytes_pulled, bytes_from_cache, bytes_unacknowledged,
                                   push_filter, link_push_filters, link_pull_filters, retries, breaks)

namespace examples {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LossPiece, examples, loss_sum, clock, ended)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KktCounts, given, left_out, late_given, late_left_out)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceSpan, what, clock, began, ended)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerReport, stage, clock, examples, loss_sum, began, ended,
                                   blocked_seconds, blocked, losses, trace, trace_left_out, kkt, stats, error)

std::string ToLine(const WorkerReport& report) {
  // Errors may quote odd bytes; those become U+FFFD.
  return nlohmann::json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<WorkerReport> FromLine(absl::string_view line) {
  try {
    return nlohmann::json::parse(line.begin(), line.end()).get<WorkerReport>();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a worker's report, found '", line.substr(0, 80), "': ", error.what()));
  }
}

}  // namespace examples
}  // namespace paceline
