#include "services/shard/metrics.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "services/shard/huge_pages.h"
#include "services/shard/snapshots/snapshot_tasks.h"

namespace paceline::shard {
namespace {

const char kWaitHelp[] = "Time pulls spent at the shard, by cause.";
// Of pulls and of pushes.
const std::vector<double> kLatencies = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                        0.02,   0.05,   0.1,    0.2,   0.5,   1,     5};
const char kStreamsHelp[] = "Streams open now.";

metrics::Histogram& StalenessOf(metrics::Exposer& page, const std::string& model) {
  return page.AddHistogram(
      "paceline_shard_observed_staleness_clocks",
      "Clocks between a reading worker and the min clock of what it read, a part at a time.",
      {0, 1, 2, 4, 8, 16, 32, 64}, {{"model", model}});
}

}  // namespace

MetricsProbe::MetricsProbe(metrics::Exposer& page)
    : push_frames_(page.AddCounter("paceline_shard_push_frames_total", "Frames taken on push streams.")),
      push_parts_(page.AddCounter("paceline_shard_push_parts_total", "Parts in frames taken.")),
      push_bytes_(
          page.AddCounter("paceline_shard_push_bytes_total", "Bytes of frames taken on push streams.")),
      push_rows_(page.AddCounter("paceline_shard_rows_pushed_total", "Rows applied, counted once each.")),
      push_seconds_(page.AddHistogram("paceline_shard_push_seconds",
                                      "From a frame's arrival until its parts were applied or refused.",
                                      kLatencies)),
      push_queue_seconds_(
          page.AddCounter("paceline_shard_push_queue_seconds_total",
                          "Of this time, that until the frames' last parts were taken up by an executor.")),
      pull_rows_(page.AddCounter("paceline_shard_rows_pulled_total", "Rows served.")),
      pull_bytes_(page.AddCounter("paceline_shard_pull_bytes_total", "Bytes of values served.")),
      pull_seconds_(page.AddHistogram("paceline_shard_pull_seconds", "From a pull's arrival to its reply.",
                                      kLatencies)),
      wait_staleness_(
          page.AddCounter("paceline_shard_wait_seconds_total", kWaitHelp, {{"cause", "staleness"}})),
      wait_replication_(
          page.AddCounter("paceline_shard_wait_seconds_total", kWaitHelp, {{"cause", "replication"}})),
      wait_queue_(page.AddCounter("paceline_shard_wait_seconds_total", kWaitHelp, {{"cause", "queue"}})),
      stale_rows_(page.AddCounter("paceline_shard_stale_rows_total",
                                  "Rows read by workers that were ahead of the rows' min clock.")),
      set_updates_(page.AddCounter("paceline_shard_set_updates_total",
                                   "Updates of the rows that clients want to be told of.")),
      set_rows_(page.AddCounter("paceline_shard_set_rows_total", "Rows in them.")),
      set_bytes_(page.AddCounter("paceline_shard_set_bytes_total", "Bytes of the rows' values.")),
      sets_lost_(
          page.AddCounter("paceline_shard_sets_lost_total",
                          "Sets of rows that were given up: what had changed was forgotten, or too much.")),
      staleness_{&StalenessOf(page, "bsp"), &StalenessOf(page, "ssp"), &StalenessOf(page, "asp")},
      push_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "push"}})),
      pull_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "pull"}})),
      subscribe_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "subscribe"}})),
      replicate_streams_(page.AddGauge("paceline_shard_streams", kStreamsHelp, {{"kind", "replicate"}})),
      sent_(page, "sent"),
      received_(page, "received") {
  for (int reason = 0; reason < v1::Refusal::Reason_ARRAYSIZE; ++reason) {
    refused_[reason] = &page.AddCounter(
        "paceline_shard_refusals_total", "Requests refused, by reason.",
        {{"reason",
          absl::AsciiStrToLower(v1::Refusal::Reason_Name(static_cast<v1::Refusal::Reason>(reason)))}});
  }
  for (const Traffic traffic : {Traffic::kPush, Traffic::kPull}) {
    for (const uint32_t number : filter::FilterSet::All().Numbers()) {
      filters_[static_cast<size_t>(traffic)].emplace_back(
          page, traffic == Traffic::kPush ? "push" : "pull",
          std::string(filter::NameOf(static_cast<filter::Filter>(number))));
    }
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

void MetricsProbe::PushServed(absl::Duration queued, absl::Duration total) {
  push_seconds_.Observe(absl::ToDoubleSeconds(total));
  push_queue_seconds_.Add(absl::ToDoubleSeconds(queued));
}

void MetricsProbe::PullServed(uint64_t rows, uint64_t bytes, absl::Duration total, absl::Duration staleness,
                              absl::Duration replication) {
  pull_rows_.Add(static_cast<double>(rows));
  pull_bytes_.Add(static_cast<double>(bytes));
  pull_seconds_.Observe(absl::ToDoubleSeconds(total));
  wait_staleness_.Add(absl::ToDoubleSeconds(staleness));
  wait_replication_.Add(absl::ToDoubleSeconds(replication));
  wait_queue_.Add(absl::ToDoubleSeconds(total - staleness - replication));
}

void MetricsProbe::StalenessObserved(Model model, uint64_t staleness, uint64_t rows) {
  staleness_[static_cast<size_t>(model)]->Observe(static_cast<double>(staleness));
  if (staleness > 0) stale_rows_.Add(static_cast<double>(rows));
}

void MetricsProbe::SetUpdated(uint64_t rows, uint64_t bytes, bool known) {
  set_updates_.Add(1);
  set_rows_.Add(static_cast<double>(rows));
  set_bytes_.Add(static_cast<double>(bytes));
  if (!known) sets_lost_.Add(1);
}

void MetricsProbe::Refused(v1::Refusal::Reason reason) {
  if (reason >= 0 && reason < v1::Refusal::Reason_ARRAYSIZE) refused_[reason]->Add(1);
}

MetricsProbe::FilterWork::FilterWork(metrics::Exposer& page, const std::string& traffic,
                                     const std::string& filter)
    : plain(page.AddCounter("paceline_shard_filter_plain_bytes_total",
                            "Bytes of keys and values that filters of the link have coded or decoded, on the "
                            "shard's side.",
                            {{"traffic", traffic}, {"filter", filter}})),
      coded(page.AddCounter("paceline_shard_filter_coded_bytes_total", "The same on the link's side.",
                            {{"traffic", traffic}, {"filter", filter}})),
      seconds(page.AddCounter("paceline_shard_filter_seconds_total", "CPU time that this took the shard.",
                              {{"traffic", traffic}, {"filter", filter}})) {}

void MetricsProbe::Filtered(Traffic traffic, filter::Filter filter, uint64_t plain, uint64_t coded,
                            absl::Duration took) {
  const FilterWork& work = filters_[static_cast<size_t>(traffic)][static_cast<size_t>(filter) - 1];
  work.plain.Add(static_cast<double>(plain));
  work.coded.Add(static_cast<double>(coded));
  work.seconds.Add(absl::ToDoubleSeconds(took));
}

MetricsProbe::Carried::Carried(metrics::Exposer& page, const std::string& direction)
    : frames(page.AddCounter("paceline_shard_replicate_frames_total", "Frames on Replicate streams.",
                             {{"direction", direction}})),
      bytes(page.AddCounter("paceline_shard_replicate_bytes_total", "Their bytes.",
                            {{"direction", direction}})),
      records(page.AddCounter("paceline_shard_replicate_records_total", "Records in them.",
                              {{"direction", direction}})),
      pages(page.AddCounter("paceline_shard_replicate_pages_total", "Pages of images in them.",
                            {{"direction", direction}})) {}

void MetricsProbe::Carried::Add(const ReplicateFrame& frame) {
  frames.Add(1);
  bytes.Add(static_cast<double>(frame.bytes));
  records.Add(static_cast<double>(frame.records));
  pages.Add(static_cast<double>(frame.pages));
}

void MetricsProbe::ReplicateSent(const ReplicateFrame& frame) {
  sent_.Add(frame);
}

void MetricsProbe::ReplicateReceived(const ReplicateFrame& frame) {
  received_.Add(frame);
}

metrics::Gauge& MetricsProbe::Streams(const std::string& kind) {
  if (kind == "push") return push_streams_;
  if (kind == "subscribe") return subscribe_streams_;
  return kind == "pull" ? pull_streams_ : replicate_streams_;
}

void MetricsProbe::StreamOpened(const std::string& kind) {
  Streams(kind).Add(1);
}

void MetricsProbe::StreamClosed(const std::string& kind) {
  Streams(kind).Add(-1);
}

namespace {

void ShowLoad(metrics::Families& families, const v1::ShardLoad& load) {
  const auto rows = [&](const char* kind, uint64_t per_s) {
    families.Gauge("paceline_shard_load_rows_per_second",
                   "Rows that clients push to and read from segments of which it is primary, lately.",
                   static_cast<double>(per_s), {{"kind", kind}});
  };
  rows("pushed", load.pushed_per_s());
  rows("read", load.read_per_s());
  families.Gauge("paceline_shard_load_bytes_per_second", "Bytes of their keys and values.",
                 static_cast<double>(load.bytes_per_s()));
  const uint64_t hottest =
      load.segments().empty() ? 0 : load.segments(0).pushed_per_s() + load.segments(0).read_per_s();
  families.Gauge("paceline_shard_load_hottest_segment_rows_per_second",
                 "Rows of its segment of which clients ask most.", static_cast<double>(hottest));
}

void ShowReplication(metrics::Families& families, const ReplicationState& state) {
  const auto gauge = [&](const std::string& name, const std::string& help, uint64_t value) {
    families.Gauge(name, help, static_cast<double>(value));
  };
  const auto segments = [&](const std::string& role, uint64_t count) {
    families.Gauge("paceline_shard_segments", "Segments by role.", static_cast<double>(count),
                   {{"role", role}});
  };
  segments("primary", state.primaries);
  segments("replica", state.replicas);
  segments("learner", state.learners);
  segments("lost", state.lost);
  gauge("paceline_shard_primaries_not_answering",
        "Primaries that may not answer now: the lease of a member has run out.", state.not_answering);
  gauge("paceline_shard_learners_taught", "Learners on other shards that are brought up from here.",
        state.learners_taught);
  gauge("paceline_shard_unreplicated_records", "Records that some awaited member does not hold yet.",
        state.unreplicated_records);
  gauge("paceline_shard_unreplicated_bytes", "Their bytes.", state.unreplicated_bytes);
  gauge("paceline_shard_pending_acks", "Acknowledgements that wait for other members.", state.pending_acks);
  gauge("paceline_shard_log_bytes", "Records kept in memory for other members.", state.log_bytes);
  families.Gauge("paceline_shard_lease_seconds", "The longest lease that primaries here ask for.",
                 absl::ToDoubleSeconds(state.lease));
  const auto counter = [&](const std::string& name, const std::string& help, uint64_t value,
                           const metrics::Labels& labels = {}) {
    families.Counter(name, help, static_cast<double>(value), labels);
  };
  counter("paceline_shard_primaries_gained_total",
          "Segments of which this shard became primary in place of another member.", state.events.gained);
  counter("paceline_shard_primaries_given_up_total", "Segments of which this shard stopped being primary.",
          state.events.given_up);
  counter("paceline_shard_handovers_begun_total", "Segments this shard began to hand over.",
          state.events.hand_overs);
  const char kFences[] = "Requests to stop following an earlier epoch, by answer.";
  counter("paceline_shard_fences_total", kFences, state.events.fenced, {{"answer", "fenced"}});
  counter("paceline_shard_fences_total", kFences, state.events.not_fenced, {{"answer", "refused"}});
}

void ShowDisk(metrics::Families& families, const Disk& disk, const ReplicationState& state) {
  families.Gauge("paceline_shard_disk_pending_bytes", "Bytes applied and not written to the disk yet.",
                 static_cast<double>(disk.pending_bytes()));
  const Disk::Health health = disk.health();
  using State = Disk::Health::State;
  constexpr std::pair<const char*, State> kStandings[] = {
      {"works", State::kWorks}, {"slow", State::kSlow}, {"full", State::kFull}, {"fails", State::kFails}};
  for (const auto& [name, standing] : kStandings) {
    families.Gauge("paceline_shard_disk_state", "1 for how the disk stands, 0 for the others.",
                   health.state == standing ? 1 : 0, {{"state", name}});
  }
  const Disk::Done done = disk.done();
  families.Counter("paceline_shard_disk_written_bytes_total", "Records, pages and bases written to the disk.",
                   static_cast<double>(done.bytes));
  families.Counter("paceline_shard_disk_syncs_total", "Syncs of the disk.", static_cast<double>(done.syncs));
  families.Gauge("paceline_shard_disk_log_bytes", "Records on the disk behind the bases of their segments.",
                 static_cast<double>(state.disk_log_bytes));
  families.Gauge("paceline_shard_disk_incomplete_segments",
                 "Segments that the disk alone could not yet restore after a loss of power.",
                 static_cast<double>(state.disk_incomplete));
  families.Gauge("paceline_shard_disk_stalled_segments",
                 "Segments for which somebody waits for a disk without progress.",
                 static_cast<double>(state.disk_stalled));
  families.Counter("paceline_shard_disk_bases_total", "Bases written, each of which cuts a segment's log.",
                   static_cast<double>(state.disk_bases));
}

// Room on the file system of the folder. A path that cannot be asked about has none to show.
void ShowRoom(metrics::Families& families, const std::string& data_dir) {
  if (data_dir.empty()) return;
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(data_dir, error);
  if (error) return;
  families.Gauge("paceline_shard_disk_free_bytes", "Free on the file system of the data folder.",
                 static_cast<double>(room.available));
  families.Gauge("paceline_shard_disk_size_bytes", "Size of that file system.",
                 static_cast<double>(room.capacity));
}

// Of a rank that has joined again, its newest session counts: one series a rank.
void ShowBehind(metrics::Families& families, const Shard::State& state) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> newest;  // by job and rank
  for (const v1::WorkerClock& worker : state.beat.workers()) {
    uint64_t& session = newest[{worker.job(), worker.rank()}];
    session = std::max(session, worker.session());
  }
  for (const auto& [worker, session] : newest) {
    const auto behind = state.behind.find(session);
    if (behind == state.behind.end()) continue;
    families.Gauge("paceline_shard_worker_clocks_behind",
                   "Clocks that a worker is behind the fastest of its job, at one time in one segment; the "
                   "largest of the shard's segments.",
                   static_cast<double>(behind->second),
                   {{"job_id", absl::StrCat(worker.first)}, {"rank", absl::StrCat(worker.second)}});
  }
}

void ShowSnapshots(metrics::Families& families, const SnapshotTasks::Counters& counters) {
  const auto counter = [&](const char* name, const char* help, uint64_t value,
                           const metrics::Labels& labels = {}) {
    families.Counter(name, help, static_cast<double>(value), labels);
  };
  counter("paceline_shard_snapshot_files_total", "Files of job snapshots written.", counters.files_written);
  counter("paceline_shard_snapshot_bytes_total", "Their bytes.", counters.bytes_written);
  counter("paceline_shard_snapshot_pages_total", "Pages copied for them.", counters.pages_copied);
  families.Gauge("paceline_shard_snapshot_copy_longest_seconds",
                 "The longest time since the start for which an executor did nothing but copy a page.",
                 absl::ToDoubleSeconds(counters.longest_copy));
  counter("paceline_shard_snapshot_rows_loaded_total", "Rows of snapshots loaded into jobs.",
          counters.rows_loaded);
  const char kFailures[] = "Files of snapshots that could not be written; loads that failed.";
  counter("paceline_shard_snapshot_failures_total", kFailures, counters.write_failures, {{"what", "write"}});
  counter("paceline_shard_snapshot_failures_total", kFailures, counters.load_failures, {{"what", "load"}});
}

}  // namespace

void ShowShard(metrics::Families& families, Shard& shard, const std::string& data_dir) {
  ShowRoom(families, data_dir);
  const Context& context = shard.context();
  for (size_t e = 0; e < context.executors().size(); ++e) {
    families.Gauge("paceline_shard_queue_depth", "Tasks waiting at an executor.",
                   static_cast<double>(context.executors()[e]->depth()), {{"executor", absl::StrCat(e)}});
    families.Counter("paceline_shard_executor_busy_seconds_total", "Time for which an executor ran tasks.",
                     absl::ToDoubleSeconds(context.executors()[e]->busy()), {{"executor", absl::StrCat(e)}});
  }
  auto described = std::make_shared<Notification>();
  auto state = std::make_shared<Shard::State>();
  shard.Survey([described, state](Shard::State now) {
    *state = std::move(now);
    described->Notify();
  });
  // Executors drain in milliseconds; a page without these is better than a scrape that hangs.
  if (!described->WaitForNotificationWithTimeout(absl::Seconds(2))) return;
  const v1::BeatRequest* beat = &state->beat;
  families.Gauge("paceline_shard_rows", "Rows held.", static_cast<double>(beat->rows()));
  families.Gauge("paceline_shard_memory_bytes", "Memory held for rows, as the budget counts it.",
                 static_cast<double>(beat->bytes()));
  const HugePages::Bytes huge = HugePages::OfProcess().bytes();
  for (const auto& [kind, bytes] : {std::pair{"used", huge.used}, std::pair{"free", huge.held - huge.used}}) {
    families.Gauge("paceline_shard_huge_page_bytes", "Memory in huge pages: used by rows, and free.",
                   static_cast<double>(bytes), {{"state", kind}});
  }
  families.Gauge("paceline_shard_memory_budget_bytes", "Memory that rows may take.",
                 static_cast<double>(beat->bytes_budget()));
  families.Gauge("paceline_shard_engine_memory_bytes", "Memory held by RocksDB.",
                 static_cast<double>(beat->memory().engine()));
  families.Gauge("paceline_shard_allocator_bytes", "Freed, and kept by malloc for what comes.",
                 static_cast<double>(beat->memory().allocator()));
  families.Gauge("paceline_shard_staged_bytes",
                 "Updates of aggregated tables that wait for the end of their clock.",
                 static_cast<double>(shard.staged_bytes()));
  families.Gauge("paceline_shard_staging_budget_bytes", "What they may take.",
                 static_cast<double>(shard.options().staging_budget_bytes));
  families.Gauge("paceline_shard_stream_bytes",
                 "What clients were granted to push, or have pushed, and the shard has not freed.",
                 static_cast<double>(context.streams().held()));
  families.Gauge("paceline_shard_stream_budget_bytes", "What it may come to.",
                 static_cast<double>(context.streams().bytes_max()));
  families.Counter("paceline_shard_stream_waits_total",
                   "Frames whose clients were granted nothing anew, or that were not read, until there was "
                   "room or the disk had caught up.",
                   static_cast<double>(context.streams().waits()));
  families.Gauge("paceline_shard_reply_bytes", "Values of replies that wait to be read.",
                 static_cast<double>(context.replies().taken()));
  families.Gauge("paceline_shard_reply_budget_bytes", "What they may take.",
                 static_cast<double>(context.replies().bytes_max()));
  families.Gauge("paceline_shard_key_list_bytes", "Memory for lists of keys that was promised to streams.",
                 static_cast<double>(context.key_lists().promised()));
  families.Gauge("paceline_shard_parked_reads", "Parts of pulls waiting now.",
                 static_cast<double>(beat->parked()));
  ShowLoad(families, state->load);
  ShowReplication(families, state->replication);
  if (const Disk* disk = context.disk()) ShowDisk(families, *disk, state->replication);
  if (shard.snapshots() != nullptr) ShowSnapshots(families, shard.snapshots()->counters());
  families.Gauge("paceline_shard_map_version", "Version of the map in use.",
                 static_cast<double>(beat->map_version()));
  for (const v1::JobClock& job : beat->jobs()) {
    families.Gauge("paceline_shard_min_clock", "Min clock of a job, the smallest of the shard's segments.",
                   static_cast<double>(job.min_clock()), {{"job_id", absl::StrCat(job.job())}});
    families.Gauge("paceline_shard_job_rows", "Rows held, by job.", static_cast<double>(job.rows()),
                   {{"job_id", absl::StrCat(job.job())}});
    families.Gauge("paceline_shard_job_memory_bytes", "Memory held by rows, by job.",
                   static_cast<double>(job.bytes()), {{"job_id", absl::StrCat(job.job())}});
  }
  for (const v1::WorkerClock& worker : beat->workers()) {
    families.Gauge("paceline_shard_worker_clock", "Clock of a worker as the shard counts it.",
                   static_cast<double>(worker.clock()),
                   {{"job_id", absl::StrCat(worker.job())},
                    {"rank", absl::StrCat(worker.rank())},
                    {"session", absl::StrCat(worker.session())}});
  }
  ShowBehind(families, *state);
}

}  // namespace paceline::shard
