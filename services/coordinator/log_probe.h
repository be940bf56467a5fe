#pragma once

#include "libs/metrics/exposer.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/probe.h"

namespace paceline::coordinator {

// Writes what happens into the log and counts it; docs/metrics.md lists the counters.
class LogProbe : public Probe {
 public:
  // `page` must outlive the probe.
  explicit LogProbe(metrics::Exposer& page);

  void ShardJoined(const v1::ShardInfo& shard, bool again) override;
  void MapChanged(const v1::Map& map) override;
  void SegmentsLost(const v1::ShardInfo& shard, size_t segments) override;
  void SessionMoved(const SessionRecord& session, SessionRecord::State was) override;
  void TableCreated(const v1::Table& table) override;
  void CallRepeated(const v1::ShardInfo& shard, const std::string& why) override;
  void StoreFailed(const absl::Status& status) override;
  void Paused(absl::Duration gap) override;

 private:
  metrics::Counter& evictions_;
  metrics::Counter& calls_repeated_;
  metrics::Counter& store_failures_;
  metrics::Counter& pauses_;
};

// Adds how the coordinator is to its page.
void ShowCoordinator(metrics::Families& families, const Gauges& gauges);

}  // namespace paceline::coordinator
