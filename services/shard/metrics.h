#pragma once

#include <array>
#include <string>
#include <vector>

#include "libs/metrics/exposer.h"
#include "services/shard/probe.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// The shard's work as Prometheus metrics; docs/metrics.md lists them. Thread-safe, a few atomic additions a
// call.
//
// More than 15 members: one for each metric.
class MetricsProbe : public Probe {
 public:
  // `page` must outlive the probe.
  explicit MetricsProbe(metrics::Exposer& page);

  void PushFrame(uint64_t bytes, uint64_t parts) override;
  void RowsPushed(uint64_t rows) override;
  void PushServed(absl::Duration queued, absl::Duration total) override;
  void PullServed(uint64_t rows, uint64_t bytes, absl::Duration total, absl::Duration staleness,
                  absl::Duration replication) override;
  void StalenessObserved(Model model, uint64_t staleness, uint64_t rows) override;
  void SetUpdated(uint64_t rows, uint64_t bytes, bool known) override;
  void Refused(v1::Refusal::Reason reason) override;
  void Filtered(Traffic traffic, filter::Filter filter, uint64_t plain, uint64_t coded,
                absl::Duration took) override;
  void ReplicateSent(const ReplicateFrame& frame) override;
  void ReplicateReceived(const ReplicateFrame& frame) override;
  void StreamOpened(const std::string& kind) override;
  void StreamClosed(const std::string& kind) override;

 private:
  // Counts the traffic of Replicate streams in one direction.
  struct Carried {
    Carried(metrics::Exposer& page, const std::string& direction);
    void Add(const ReplicateFrame& frame);
    metrics::Counter& frames;
    metrics::Counter& bytes;
    metrics::Counter& records;
    metrics::Counter& pages;
  };
  // Counts what one filter does with one kind of traffic.
  struct FilterWork {
    FilterWork(metrics::Exposer& page, const std::string& traffic, const std::string& filter);
    metrics::Counter& plain;
    metrics::Counter& coded;
    metrics::Counter& seconds;
  };
  metrics::Gauge& Streams(const std::string& kind);

  metrics::Counter& push_frames_;
  metrics::Counter& push_parts_;
  metrics::Counter& push_bytes_;
  metrics::Counter& push_rows_;
  metrics::Histogram& push_seconds_;
  metrics::Counter& push_queue_seconds_;
  metrics::Counter& pull_rows_;
  metrics::Counter& pull_bytes_;
  metrics::Histogram& pull_seconds_;
  metrics::Counter& wait_staleness_;
  metrics::Counter& wait_replication_;
  metrics::Counter& wait_queue_;
  metrics::Counter& stale_rows_;
  metrics::Counter& set_updates_;
  metrics::Counter& set_rows_;
  metrics::Counter& set_bytes_;
  metrics::Counter& sets_lost_;
  std::array<metrics::Histogram*, 3> staleness_;  // by model
  std::array<metrics::Counter*, v1::Refusal::Reason_ARRAYSIZE> refused_;
  metrics::Gauge& push_streams_;
  metrics::Gauge& pull_streams_;
  metrics::Gauge& subscribe_streams_;
  metrics::Gauge& replicate_streams_;
  Carried sent_;
  Carried received_;
  std::array<std::vector<FilterWork>, 2> filters_;  // by traffic and filter
};

// Adds the shard's present state to its page: rows, memory, queues, clocks, the progress of followers.
// `data_dir`: its folder; empty: it has none.
void ShowShard(metrics::Families& families, Shard& shard, const std::string& data_dir = "");

}  // namespace paceline::shard
