#include "services/coordinator/reporting_probe.h"

#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"
#include "services/coordinator/metadata/status.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kQuiet = absl::Seconds(10);

// Info for events that people follow, debug for details.
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

// The details of the session that matter in its state.
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
  const absl::Time now = world::MonotonicNow();
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

void ReportingProbe::SegmentsTakenOver(size_t segments) {
  takeovers_ += segments;
  spdlog::warn("replicas took over segments={}", segments);
}

void ReportingProbe::SegmentsHandedOver(size_t segments) {
  handovers_ += segments;
  spdlog::info("handed over segments={}", segments);
}

void ReportingProbe::MovesByLoad(uint32_t segment, uint32_t from, uint32_t to) {
  spdlog::info("segment moves by load segment={} from_shard={} to_shard={}", segment, from, to);
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

void ReportingProbe::TableDropped(const v1::Table& table) {
  spdlog::info("table dropped name={} table={} job={}", table.name(), table.id(), table.job());
}

void ReportingProbe::RatesChanged(const v1::Table& table) {
  spdlog::info("rates changed name={} table={} job={} change={} from_clock={}", table.name(), table.id(),
               table.job(), table.rule_change(), table.rule_clock());
}

void ReportingProbe::BoundChanged(const v1::Table& table) {
  spdlog::info("bound changed name={} table={} job={} change={} bound={} from_clock={}", table.name(),
               table.id(), table.job(), table.rule_change(), table.bound(), table.rule_clock());
}

void ReportingProbe::JobDeleted(const JobRecord& job) {
  spdlog::info("job deleted name={} job={}", job.name(), job.id());
}

void ReportingProbe::CallRepeated(const v1::ShardInfo& shard, const std::string& why) {
  calls_repeated_ += 1;
  if (WorthALine(shard.name())) spdlog::warn("call repeated shard={} why=\"{}\"", shard.name(), why);
}

void ReportingProbe::LeadBegan(uint64_t term) {
  spdlog::info("coordinator leads term={}", term);
}

void ReportingProbe::LeadEnded(uint64_t term, const absl::Status& why) {
  leads_ended_ += 1;
  spdlog::warn("coordinator leads no longer, stands by term={} cause=\"{}\"", term,
               std::string(why.message()));
}

void ReportingProbe::StoreBehind(const absl::Status& why) {
  spdlog::error("nobody is served error=\"{}\"", std::string(why.message()));
}

void ReportingProbe::StoreFailed(const absl::Status& status) {
  store_failures_ += 1;
  if (WorthALine("the store")) spdlog::error("store failed error=\"{}\"", std::string(status.message()));
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
  count("takeovers_total", "Segments whose replica took over from a silent primary.", takeovers_);
  count("handovers_total", "Segments that were handed over to a replica as planned.", handovers_);
  count("calls_repeated_total", "Calls to shards that failed or left segments open.", calls_repeated_);
  count("store_failures_total", "Commits, and looks at who leads, that failed.", store_failures_);
  count("leads_ended_total", "Times the coordinator stopped leading and stood by.", leads_ended_);
  count("pauses_total", "Times the coordinator was not run for more than a second.", pauses_);
}

namespace {

void ShowWorker(metrics::Families& families, const Gauges::Worker& worker) {
  const metrics::Labels labels{
      {"job_id", absl::StrCat(worker.job)}, {"name", worker.name}, {"rank", absl::StrCat(worker.rank)}};
  if (worker.told.loss.has_value()) {
    families.Gauge("paceline_coordinator_worker_loss", "Loss that a worker has told last.", *worker.told.loss,
                   labels);
  }
  const auto read = [&](const char* source, uint64_t rows) {
    metrics::Labels of_source = labels;
    of_source.emplace_back("source", source);
    families.Counter("paceline_coordinator_worker_rows_read_total",
                     "Rows that a worker has read, by where they came from.", static_cast<double>(rows),
                     of_source);
  };
  read("cache", worker.told.rows_from_cache);
  read("shards", worker.told.rows_pulled);
}

void ShowWork(metrics::Families& families, const WorkQueues::Gauge& queue) {
  const metrics::Labels labels{
      {"job_id", absl::StrCat(queue.job)}, {"name", queue.job_name}, {"queue", queue.status.name()}};
  const v1::WorkSpec& spec = queue.status.spec();
  families.Gauge("paceline_coordinator_work_examples", "Examples of a work queue, times its passes.",
                 static_cast<double>(spec.examples() * spec.passes()), labels);
  families.Gauge("paceline_coordinator_work_examples_done", "… of which so many are in items that are done.",
                 static_cast<double>(queue.status.examples_done()), labels);
  families.Gauge("paceline_coordinator_work_items_held", "Items of a work queue that sessions hold.",
                 static_cast<double>(queue.status.items_held()), labels);
  const auto again = [&](const char* begun, uint64_t examples) {
    metrics::Labels of = labels;
    of.emplace_back("begun", begun);
    families.Gauge("paceline_coordinator_work_examples_again",
                   "Examples that may have been trained twice, as the worker that had them ended: of items "
                   "that it had reported as begun, and of others.",
                   static_cast<double>(examples), of);
  };
  again("reported", queue.status.again_begun());
  again("perhaps", queue.status.again_perhaps());
}

}  // namespace

void ShowGauges(metrics::Families& families, const Gauges& gauges) {
  for (const auto& [state, sessions] : gauges.sessions) {
    families.Gauge("paceline_coordinator_sessions", "Sessions by state.", static_cast<double>(sessions),
                   {{"state", state}});
  }
  for (const Gauges::Worker& worker : gauges.workers) ShowWorker(families, worker);
  for (const Gauges::Shard& shard : gauges.each_shard) {
    families.Gauge("paceline_coordinator_shard_alive", "1 for a shard heard of recently, 0 for another.",
                   shard.alive ? 1 : 0, {{"shard", shard.name}});
  }
  for (const Gauges::Shard& shard : gauges.each_shard) {
    families.Gauge("paceline_coordinator_shard_draining", "1 for a shard from which everything moves away.",
                   shard.draining ? 1 : 0, {{"shard", shard.name}});
  }
  for (const Gauges::Job& job : gauges.active_jobs) {
    families.Gauge("paceline_coordinator_job_active", "1 for each job of which a session is open.", 1,
                   {{"job_id", absl::StrCat(job.id)}, {"name", job.name}});
  }
  const auto show = [&](const char* name, const char* help, uint64_t value) {
    families.Gauge(absl::StrCat("paceline_coordinator_", name), help, static_cast<double>(value));
  };
  show("leads", "1 if this coordinator leads; 0 if it stands by, and shows nothing of the cluster.",
       gauges.leads ? 1 : 0);
  show("shards", "Shards that have joined.", gauges.shards);
  show("shards_alive", "Shards heard of recently.", gauges.shards_alive);
  show("segments_lost", "Segments whose data was in earlier starts of all their members.",
       gauges.segments_lost);
  show("segments_under_replicated", "Segments with fewer replicas that live than are wanted.",
       gauges.segments_under_replicated);
  show("shards_draining", "Shards from which everything moves away.", gauges.shards_draining);
  show("problems", "Problems that `paceline status` names.", gauges.problems);
  show("copies_moving", "Segments that are being copied to other shards now.", gauges.moves.copies());
  show("copies_left", "Segments to be copied after these, as it looks now.", gauges.moves.copies_left());
  show("move_bytes_left", "Bytes of all these copies that have not moved yet, as far as known.",
       gauges.moves.bytes_left());
  show("move_bytes_per_second", "Bytes of these copies that moved lately, a second.",
       gauges.moves.bytes_per_s());
  show("load_rows_per_second", "Rows that clients push to and read from all shards, lately.",
       gauges.load.rows_per_s());
  families.Gauge("paceline_coordinator_load_peak_ratio",
                 "… of these at the shard with most, in means of all shards; 0: there are none.",
                 gauges.load.peak_percent() / 100.0);
  show("load_keys_too_hot", "Keys that alone ask more of their shard than moves could take away.",
       static_cast<uint64_t>(gauges.load.too_hot_size()));
  families.Counter("paceline_coordinator_load_moves_total",
                   "Segments moved by load, since this coordinator began to lead.",
                   static_cast<double>(gauges.load.moved()));
  show("jobs", "Jobs that have not been deleted.", gauges.jobs);
  show("tables", "Tables of all jobs.", gauges.tables);
  show("requests_waiting", "Requests that wait for an answer.", gauges.requests_waiting);
  show("watchers", "Streams that watch the map.", gauges.watchers);
  show("map_version", "Version of the map; 0: none yet.", gauges.map_version);
  show("catalogue_version", "Version of the list of tables.", gauges.catalogue_version);
  show("term", "How often a coordinator has begun to lead on this store; the term of the one that leads.",
       gauges.term);
  const auto snapshots = [&](const char* what, uint64_t value) {
    families.Counter("paceline_coordinator_snapshots_total",
                     "Snapshots of jobs, since this coordinator began to lead.", static_cast<double>(value),
                     {{"what", what}});
  };
  snapshots("taken", gauges.snapshots_taken);
  snapshots("failed", gauges.snapshots_failed);
  snapshots("loaded", gauges.snapshots_loaded);
  for (const WorkQueues::Gauge& queue : gauges.work) ShowWork(families, queue);
  for (const Bounds::Gauge& table : gauges.bounds) {
    families.Gauge("paceline_coordinator_table_bound_clocks",
                   "Staleness bound of a table that is read by one that follows the workers' waiting.",
                   table.bound,
                   {{"job_id", absl::StrCat(table.job)}, {"name", table.job_name}, {"table", table.table}});
  }
  for (const SnapshotSchedules::Gauge& schedule : gauges.snapshot_schedules) {
    const metrics::Labels labels{{"job_id", absl::StrCat(schedule.job)}, {"name", schedule.name}};
    families.Gauge("paceline_coordinator_snapshot_schedule_age_seconds",
                   "Since the last snapshot of a job with a schedule, or since that was decided.",
                   static_cast<double>(schedule.age_s), labels);
    if (schedule.every_s > 0) {
      families.Gauge("paceline_coordinator_snapshot_schedule_interval_seconds",
                     "How often its schedule takes a snapshot.", static_cast<double>(schedule.every_s),
                     labels);
    }
    families.Counter("paceline_coordinator_snapshot_schedule_failures_total",
                     "Snapshots that a schedule could not take or delete.",
                     static_cast<double>(schedule.failures), labels);
  }
}

}  // namespace paceline::coordinator
