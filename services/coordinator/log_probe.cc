#include "services/coordinator/log_probe.h"

#include <spdlog/spdlog.h>

#include <string>

namespace paceline::coordinator {

LogProbe::LogProbe(metrics::Exposer& page)
    : evictions_(
          page.AddCounter("paceline_coordinator_evictions_total", "Sessions evicted for their silence.")),
      calls_repeated_(
          page.AddCounter("paceline_coordinator_calls_repeated_total",
                          "Calls to shards that failed or left segments open, and were repeated.")),
      store_failures_(page.AddCounter("paceline_coordinator_store_failures_total", "Commits that failed.")),
      pauses_(page.AddCounter("paceline_coordinator_pauses_total",
                              "Times the coordinator was not run for a while.")) {}

void LogProbe::ShardJoined(const v1::ShardInfo& shard, bool again) {
  spdlog::info("shard {} name={} shard={} incarnation={} address={}", again ? "started again" : "joined",
               shard.name(), shard.shard(), shard.incarnation(), shard.address());
}

void LogProbe::MapChanged(const v1::Map& map) {
  spdlog::info("map changed version={} segments={} shards={}", map.version(), map.segments_size(),
               map.shards_size());
}

void LogProbe::SegmentsLost(const v1::ShardInfo& shard, size_t segments) {
  spdlog::error("acknowledged data lost shard={} segments={}: they were in the memory of an earlier start",
                shard.name(), segments);
}

void LogProbe::SessionMoved(const SessionRecord& session, SessionRecord::State was) {
  const bool evicted =
      session.state() == SessionRecord::CLOSING && was != SessionRecord::CLOSING && session.evicted();
  if (evicted) evictions_.Add(1);
  spdlog::log(evicted ? spdlog::level::warn : spdlog::level::info,
              "session {} session={} job={} client={} reason=\"{}\"",
              SessionRecord::State_Name(session.state()), session.id(), session.job(), session.client(),
              session.reason());
}

void LogProbe::TableCreated(const v1::Table& table) {
  spdlog::info("table created table={} name={} job={} dim={}", table.id(), table.name(), table.job(),
               table.schema().dim());
}

void LogProbe::CallRepeated(const v1::ShardInfo& shard, const std::string& why) {
  calls_repeated_.Add(1);
  spdlog::debug("call repeated shard={} why=\"{}\"", shard.name(), why);
}

void LogProbe::StoreFailed(const absl::Status& status) {
  store_failures_.Add(1);
  spdlog::error("store failed error=\"{}\"", status.ToString());
}

void LogProbe::Paused(absl::Duration gap) {
  pauses_.Add(1);
  spdlog::warn("was not run seconds={:.2f}; silence of sessions counts from now", absl::ToDoubleSeconds(gap));
}

void ShowCoordinator(metrics::Families& families, const Gauges& gauges) {
  for (const auto& [state, count] : gauges.sessions) {
    families.Gauge("paceline_coordinator_sessions", "Sessions by state.", static_cast<double>(count),
                   {{"state", state}});
  }
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    families.Gauge(name, help, static_cast<double>(value));
  };
  gauge("paceline_coordinator_shards", "Shards that ever joined.", gauges.shards);
  gauge("paceline_coordinator_shards_alive", "Shards heard of within the last seconds.", gauges.shards_alive);
  gauge("paceline_coordinator_segments_lost", "Segments whose acknowledged data is gone.",
        gauges.segments_lost);
  gauge("paceline_coordinator_tables", "Tables.", gauges.tables);
  gauge("paceline_coordinator_requests_waiting", "Requests that wait for an answer.",
        gauges.requests_waiting);
  gauge("paceline_coordinator_map_watchers", "Streams of the map.", gauges.watchers);
  gauge("paceline_coordinator_map_version", "Version of the map.", gauges.map_version);
  gauge("paceline_coordinator_catalogue_version", "Version of the list of tables.", gauges.catalogue_version);
  gauge("paceline_coordinator_term", "Term of this coordinator.", gauges.term);
}

}  // namespace paceline::coordinator
