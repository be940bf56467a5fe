#include "services/coordinator/reporting_probe.h"

#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/coordinator/metadata/status.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kQuiet = absl::Seconds(10);

// A line for what people follow, more for what they look into.
spdlog::level::level_enum LevelOf(const SessionRecord& session) {
  switch (session.state()) {
    case SessionRecord::CLOSING:
      return session.evicted() ? spdlog::level::warn : spdlog::level::info;
    case SessionRecord::OPEN:
    case SessionRecord::WORKER:
    case SessionRecord::FINISHED:
      return spdlog::level::info;
    default:
      return spdlog::level::debug;
  }
}

// What there is to say of the session in its state.
std::string Details(const SessionRecord& session) {
  switch (session.state()) {
    case SessionRecord::OPEN:
      return absl::StrCat(" client=\"", absl::CEscape(session.client()), "\"");
    case SessionRecord::JOINING:
    case SessionRecord::WORKER:
      return absl::StrCat(" rank=", session.rank(), " start_clock=", session.start_clock());
    case SessionRecord::CLOSING:
      return absl::StrCat(" evicted=", session.evicted() ? "true" : "false", " reason=\"",
                          absl::CEscape(session.reason()), "\"");
    default:
      return "";
  }
}

}  // namespace

bool ReportingProbe::WorthALine(const std::string& subject) {
  absl::Time& last = last_line_.try_emplace(subject, absl::InfinitePast()).first->second;
  const absl::Time now = absl::Now();
  if (now - last < kQuiet) return false;
  last = now;
  return true;
}

void ReportingProbe::ShardJoined(const v1::ShardInfo& shard, bool again) {
  spdlog::info("shard joined name={} shard={} incarnation={} address={} again={}", shard.name(),
               shard.shard(), shard.incarnation(), shard.address(), again);
}

void ReportingProbe::MapChanged(const v1::Map& map) {
  spdlog::info("map version={} segments={} shards={}", map.version(), map.segments_size(), map.shards_size());
}

void ReportingProbe::SegmentsLost(const v1::ShardInfo& shard, size_t segments) {
  spdlog::error("data lost shard={} segments={} cause=\"the shard was started again\"", shard.name(),
                segments);
}

void ReportingProbe::SessionMoved(const SessionRecord& session, SessionRecord::State was) {
  const bool closing = session.state() == SessionRecord::CLOSING;
  if (was == SessionRecord::STATE_UNSPECIFIED) sessions_opened_ += 1;
  if (closing && session.join_refused()) {
    joins_refused_ += 1;
  } else if (closing && session.evicted()) {
    evictions_ += 1;
  }
  const std::string words = absl::StrCat("session ", StateName(session.state()), " session=", session.id(),
                                         " job=", session.job(), Details(session));
  spdlog::log(LevelOf(session), "{}", words);
}

void ReportingProbe::TableCreated(const v1::Table& table) {
  spdlog::info("table created name={} table={} job={} dim={}", table.name(), table.id(), table.job(),
               table.schema().dim());
}

void ReportingProbe::CallRepeated(const v1::ShardInfo& shard, const std::string& why) {
  calls_repeated_ += 1;
  if (WorthALine(shard.name())) spdlog::warn("call repeated shard={} why=\"{}\"", shard.name(), why);
}

void ReportingProbe::StoreFailed(const absl::Status& status) {
  store_failures_ += 1;
  if (WorthALine("the store")) spdlog::error("commit failed error=\"{}\"", std::string(status.message()));
}

void ReportingProbe::Paused(absl::Duration gap) {
  pauses_ += 1;
  spdlog::warn("coordinator was not running seconds={:.1f}; silence counts from now",
               absl::ToDoubleSeconds(gap));
}

void ReportingProbe::Show(metrics::Families& families) const {
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    families.Counter(absl::StrCat("paceline_coordinator_", name), help, static_cast<double>(value));
  };
  count("sessions_opened_total", "Sessions created.", sessions_opened_);
  count("evictions_total", "Sessions evicted for their silence.", evictions_);
  count("joins_refused_total", "Sessions ended because their start clock had been passed.", joins_refused_);
  count("calls_repeated_total", "Calls to shards that failed or left segments open.", calls_repeated_);
  count("store_failures_total", "Commits that failed.", store_failures_);
  count("pauses_total", "Times the coordinator was not run for more than a second.", pauses_);
}

void ShowGauges(metrics::Families& families, const Gauges& gauges) {
  for (const auto& [state, sessions] : gauges.sessions) {
    families.Gauge("paceline_coordinator_sessions", "Sessions by state.", static_cast<double>(sessions),
                   {{"state", state}});
  }
  const auto show = [&](const char* name, const char* help, uint64_t value) {
    families.Gauge(absl::StrCat("paceline_coordinator_", name), help, static_cast<double>(value));
  };
  show("shards", "Shards that have joined.", gauges.shards);
  show("shards_alive", "Shards heard of recently.", gauges.shards_alive);
  show("segments_lost", "Segments whose data was in an earlier start of their shard.", gauges.segments_lost);
  show("tables", "Tables of all jobs.", gauges.tables);
  show("requests_waiting", "Requests that wait for an answer.", gauges.requests_waiting);
  show("watchers", "Streams that watch the map.", gauges.watchers);
  show("map_version", "Version of the map; 0: none yet.", gauges.map_version);
  show("catalogue_version", "Version of the list of tables.", gauges.catalogue_version);
  show("term", "Coordinators that have led on this store so far.", gauges.term);
}

}  // namespace paceline::coordinator
