#pragma once

#include <atomic>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "libs/metrics/exposer.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/facts/probe.h"

namespace paceline::coordinator {

// Logs the coordinator's work, and counts it for the metrics page. The methods of Probe are for one thread at
// a time; Show may be called from any thread.
class ReportingProbe final : public Probe {
 public:
  void ShardJoined(const v1::ShardInfo& shard, bool again) override;
  void MapChanged(const v1::Map& map) override;
  void SegmentsLost(const v1::ShardInfo& shard, size_t segments) override;
  void SegmentsTakenOver(size_t segments) override;
  void SegmentsHandedOver(size_t segments) override;
  void MovesByLoad(uint32_t segment, uint32_t from, uint32_t to) override;
  void SessionMoved(const SessionRecord& session, SessionRecord::State was) override;
  void TableCreated(const v1::Table& table) override;
  void TableDropped(const v1::Table& table) override;
  void RatesChanged(const v1::Table& table) override;
  void BoundChanged(const v1::Table& table) override;
  void JobDeleted(const JobRecord& job) override;
  void CallRepeated(const v1::ShardInfo& shard, const std::string& why) override;
  void LeadBegan(uint64_t term) override;
  void LeadEnded(uint64_t term, const absl::Status& why) override;
  void StoreBehind(const absl::Status& why) override;
  void StoreFailed(const absl::Status& status) override;
  void Paused(absl::Duration gap) override;

  // Adds the counters to a page.
  void Show(metrics::Families& families) const;

 private:
  // True at most once in a while for a subject, so that repeated events do not fill the log.
  bool WorthALine(const std::string& subject);

  std::atomic<uint64_t> sessions_opened_ = 0;
  std::atomic<uint64_t> evictions_ = 0;
  std::atomic<uint64_t> joins_refused_ = 0;
  std::atomic<uint64_t> takeovers_ = 0;
  std::atomic<uint64_t> handovers_ = 0;
  std::atomic<uint64_t> calls_repeated_ = 0;
  std::atomic<uint64_t> store_failures_ = 0;
  std::atomic<uint64_t> pauses_ = 0;
  std::atomic<uint64_t> leads_ended_ = 0;
  std::map<std::string, absl::Time> last_line_;  // by subject: few, one per shard
};

// Adds the coordinator's present state to a page.
void ShowGauges(metrics::Families& families, const Gauges& gauges);

}  // namespace paceline::coordinator
