#include "examples/lib/totals.h"

#include <algorithm>
#include <limits>

namespace paceline::examples {
namespace {

void Add(const WaitSeconds& part, WaitSeconds* sum) {
  sum->staleness += part.staleness;
  sum->queue += part.queue;
  sum->network += part.network;
  sum->route += part.route;
  sum->back_pressure += part.back_pressure;
  sum->work += part.work;
  sum->value_bound += part.value_bound;
  sum->commit += part.commit;
}

void Add(const PushFilterStats& part, PushFilterStats* sum) {
  sum->rows_given += part.rows_given;
  sum->rows_sent += part.rows_sent;
  sum->bytes_given += part.bytes_given;
  sum->bytes_sent += part.bytes_sent;
}

void Add(const std::map<std::string, FilterUse>& part, std::map<std::string, FilterUse>* sum) {
  for (const auto& [name, use] : part) {
    FilterUse& whole = (*sum)[name];
    whole.bytes_plain += use.bytes_plain;
    whole.bytes_coded += use.bytes_coded;
    whole.seconds += use.seconds;
  }
}

void Add(const KktCounts& part, KktCounts* sum) {
  sum->given += part.given;
  sum->left_out += part.left_out;
  sum->late_given += part.late_given;
  sum->late_left_out += part.late_left_out;
}

double Seconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// Piece by piece, the means over the workers.
std::vector<LossPoint> Curve(absl::Span<const WorkerReport> reports, int64_t began) {
  std::vector<LossPiece> sums;
  for (const WorkerReport& report : reports) {
    sums.resize(std::max(sums.size(), report.losses.size()));
    for (size_t i = 0; i < report.losses.size(); ++i) {
      const LossPiece& piece = report.losses[i];
      sums[i].examples += piece.examples;
      sums[i].loss_sum += piece.loss_sum;
      sums[i].clock = std::max(sums[i].clock, piece.clock);
      sums[i].ended = std::max(sums[i].ended, piece.ended);
    }
  }
  std::vector<LossPoint> curve;
  uint64_t examples = 0;
  for (const LossPiece& sum : sums) {
    if (sum.examples == 0) continue;
    examples += sum.examples;
    curve.push_back({.examples = examples,
                     .clock = sum.clock,
                     .seconds = Seconds(sum.ended - began),
                     .loss = sum.loss_sum / static_cast<double>(sum.examples)});
  }
  return curve;
}

// What is known only once all have finished.
void AddDurations(absl::Span<const WorkerReport> reports, Totals* totals) {
  int64_t began = std::numeric_limits<int64_t>::max(), ended = 0;
  for (const WorkerReport& report : reports) {
    if (report.ended == 0) return;
    began = std::min(began, report.began);
    ended = std::max(ended, report.ended);
  }
  if (reports.empty()) return;
  totals->seconds = Seconds(ended - began);
  for (const WorkerReport& report : reports) {
    totals->worker_seconds += Seconds(report.ended - report.began);
    totals->blocked_seconds += report.blocked_seconds;
    for (const BlockedCause& cause : kBlockedCauses) {
      totals->blocked.*cause.seconds += report.blocked.*cause.seconds;
    }
  }
  totals->curve = Curve(reports, began);
}

}  // namespace

Totals Sum(absl::Span<const WorkerReport> reports) {
  Totals totals;
  totals.clock_all_have = reports.empty() ? 0 : std::numeric_limits<uint64_t>::max();
  for (const WorkerReport& report : reports) {
    totals.started += report.began != 0;
    totals.examples += report.examples;
    totals.loss_sum += report.loss_sum;
    totals.rows_pushed += report.stats.rows_pushed;
    totals.rows_pulled += report.stats.rows_pulled;
    totals.bytes_pulled += report.stats.bytes_pulled;
    totals.rows_from_cache += report.stats.rows_from_cache;
    totals.retries += report.stats.retries;
    Add(report.stats.wait, &totals.wait);
    Add(report.stats.push_filter, &totals.push_filter);
    Add(report.stats.link_push_filters, &totals.link_filters);
    Add(report.stats.link_pull_filters, &totals.link_filters);
    Add(report.kkt, &totals.kkt);
    for (const auto& [clocks, rows] : report.stats.staleness_rows) totals.staleness_rows[clocks] += rows;
    totals.clock_all_have = std::min(totals.clock_all_have, report.clock);
  }
  AddDurations(reports, &totals);
  return totals;
}

double MeanStaleness(const std::map<uint64_t, uint64_t>& staleness_rows) {
  double clocks_sum = 0, rows_sum = 0;
  for (const auto& [clocks, rows] : staleness_rows) {
    clocks_sum += static_cast<double>(clocks) * static_cast<double>(rows);
    rows_sum += static_cast<double>(rows);
  }
  return rows_sum == 0 ? 0 : clocks_sum / rows_sum;
}

uint64_t MaxStaleness(const std::map<uint64_t, uint64_t>& staleness_rows) {
  return staleness_rows.empty() ? 0 : staleness_rows.rbegin()->first;
}

}  // namespace paceline::examples
