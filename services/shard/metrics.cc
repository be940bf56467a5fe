#include "services/shard/metrics.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace paceline::shard {
namespace {

const char kWaitHelp[] = "Time pulls spent at the shard, by cause.";
const char kStreamsHelp[] = "Streams open now.";

}  // namespace

MetricsProbe::MetricsProbe(metrics::Exposer& page)
    : push_frames_(page.AddCounter("paceline_shard_push_frames_total", "Frames taken on push streams.")),
      push_parts_(page.AddCounter("paceline_shard_push_parts_total", "Parts in frames taken.")),
      push_bytes_(
          page.AddCounter("paceline_shard_push_bytes_total", "Bytes of frames taken on push streams.")),
      push_rows_(page.AddCounter("paceline_shard_rows_pushed_total", "Rows applied, counted once each.")),
      pull_rows_(page.AddCounter("paceline_shard_rows_pulled_total", "Rows served.")),
      pull_bytes_(page.AddCounter("paceline_shard_pull_bytes_total", "Bytes of values served.")),
      pull_seconds_(page.AddHistogram(
          "paceline_shard_pull_seconds", "From a pull's arrival to its reply.",
          {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5})),
      wait_staleness_(
          page.AddCounter("paceline_shard_wait_seconds_total", kWaitHelp, {{"cause", "staleness"}})),
      wait_queue_(page.AddCounter("paceline_shard_wait_seconds_total", kWaitHelp, {{"cause", "queue"}})),
      stale_rows_(page.AddCounter("paceline_shard_stale_rows_total",
                                  "Rows read by workers that were ahead of the rows' min clock.")),
      staleness_(page.AddHistogram(
          "paceline_shard_observed_staleness_clocks",
          "Clocks between a reading worker and the min clock of what it read, a part at a time.",
          {0, 1, 2, 4, 8, 16, 32, 64})),
      push_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "push"}})),
      pull_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "pull"}})) {
  for (int reason = 0; reason < v1::Refusal::Reason_ARRAYSIZE; ++reason) {
    refused_[reason] = &page.AddCounter(
        "paceline_shard_refusals_total", "Requests refused, by reason.",
        {{"reason",
          absl::AsciiStrToLower(v1::Refusal::Reason_Name(static_cast<v1::Refusal::Reason>(reason)))}});
  }
}

void MetricsProbe::PushFrame(uint64_t bytes, uint64_t parts) {
  push_frames_.Add(1);
  push_parts_.Add(static_cast<double>(parts));
  push_bytes_.Add(static_cast<double>(bytes));
}

void MetricsProbe::RowsPushed(uint64_t rows) {
  push_rows_.Add(static_cast<double>(rows));
}

void MetricsProbe::PullServed(uint64_t rows, uint64_t bytes, absl::Duration total, absl::Duration staleness) {
  pull_rows_.Add(static_cast<double>(rows));
  pull_bytes_.Add(static_cast<double>(bytes));
  pull_seconds_.Observe(absl::ToDoubleSeconds(total));
  wait_staleness_.Add(absl::ToDoubleSeconds(staleness));
  wait_queue_.Add(absl::ToDoubleSeconds(total - staleness));
}

void MetricsProbe::StalenessObserved(uint64_t staleness, uint64_t rows) {
  staleness_.Observe(static_cast<double>(staleness));
  if (staleness > 0) stale_rows_.Add(static_cast<double>(rows));
}

void MetricsProbe::Refused(v1::Refusal::Reason reason) {
  if (reason >= 0 && reason < v1::Refusal::Reason_ARRAYSIZE) refused_[reason]->Add(1);
}

void MetricsProbe::StreamOpened(const std::string& kind) {
  (kind == "push" ? push_streams_ : pull_streams_).Add(1);
}

void MetricsProbe::StreamClosed(const std::string& kind) {
  (kind == "push" ? push_streams_ : pull_streams_).Add(-1);
}

void ShowShard(metrics::Families& families, Shard& shard) {
  for (size_t e = 0; e < shard.executor_count(); ++e) {
    families.Gauge("paceline_shard_queue_depth", "Tasks waiting at an executor.",
                   static_cast<double>(shard.executor(e).depth()), {{"executor", absl::StrCat(e)}});
  }
  auto described = std::make_shared<absl::Notification>();
  auto beat = std::make_shared<v1::BeatRequest>();
  shard.Describe([described, beat](v1::BeatRequest now) {
    *beat = std::move(now);
    described->Notify();
  });
  // Executors drain in milliseconds; a page without these is better than a scrape that hangs.
  if (!described->WaitForNotificationWithTimeout(absl::Seconds(2))) return;
  families.Gauge("paceline_shard_rows", "Rows held.", static_cast<double>(beat->rows()));
  families.Gauge("paceline_shard_memory_bytes", "Memory held by rows.", static_cast<double>(beat->bytes()));
  families.Gauge("paceline_shard_memory_budget_bytes", "Memory rows may take.",
                 static_cast<double>(beat->bytes_budget()));
  families.Gauge("paceline_shard_parked_reads", "Parts of pulls waiting now.",
                 static_cast<double>(beat->parked()));
  families.Gauge("paceline_shard_segments", "Segments by role.", beat->primaries(), {{"role", "primary"}});
  families.Gauge("paceline_shard_segments", "Segments by role.", beat->lost(), {{"role", "lost"}});
  families.Gauge("paceline_shard_map_version", "Version of the map in use.",
                 static_cast<double>(beat->map_version()));
  for (const v1::JobClock& job : beat->jobs()) {
    families.Gauge("paceline_shard_min_clock", "Min clock of a job, the smallest of the shard's segments.",
                   static_cast<double>(job.min_clock()), {{"job", absl::StrCat(job.job())}});
  }
  for (const v1::WorkerClock& worker : beat->workers()) {
    families.Gauge("paceline_shard_worker_clock", "Clock of a worker as the shard counts it.",
                   static_cast<double>(worker.clock()),
                   {{"job", absl::StrCat(worker.job())},
                    {"rank", absl::StrCat(worker.rank())},
                    {"session", absl::StrCat(worker.session())}});
  }
}

}  // namespace paceline::shard
