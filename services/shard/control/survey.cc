// Gathers the state of a shard, for the coordinator and for people.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/version.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

v1::DiskHealth ToProto(const Disk::Health& health) {
  const auto state = [&] {
    switch (health.state) {
      case Disk::Health::State::kSlow:
        return v1::DiskHealth::SLOW;
      case Disk::Health::State::kFull:
        return v1::DiskHealth::FULL;
      case Disk::Health::State::kFails:
        return v1::DiskHealth::FAILS;
      default:
        return v1::DiskHealth::WORKS;
    }
  };
  v1::DiskHealth proto;
  proto.set_state(state());
  proto.set_why(health.why);
  proto.set_for_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(std::min(health.lasts, absl::Hours(1000)))));
  return proto;
}

// For people: the first few by number.
std::string NotServing(const std::vector<size_t>& segments, const std::string& why) {
  constexpr size_t kNamed = 8;
  const size_t named = std::min(segments.size(), kNamed);
  const std::string numbers =
      absl::StrJoin(segments.begin(), segments.begin() + static_cast<ptrdiff_t>(named), ", ");
  const std::string more =
      segments.size() > named ? absl::StrCat(" and ", segments.size() - named, " more") : "";
  return absl::StrCat(segments.size() == 1 ? "segment " : "segments ", numbers, more, ": ", why);
}

// Of each job the slowest worker and the newest: who is waited for, and how far clocks have come. All of
// them, from every shard, would be more than anybody reads.
void KeepSlowestAndNewest(v1::BeatRequest& beat) {
  std::map<uint32_t, std::pair<v1::WorkerClock, v1::WorkerClock>> kept;  // by job
  for (const v1::WorkerClock& worker : beat.workers()) {
    auto& [slowest, newest] = kept.try_emplace(worker.job(), worker, worker).first->second;
    if (worker.clock() < slowest.clock()) slowest = worker;
    if (worker.clock() > newest.clock()) newest = worker;
  }
  beat.clear_workers();
  for (const auto& [job, workers] : kept) {
    const auto& [slowest, newest] = workers;
    *beat.add_workers() = slowest;
    if (newest.session() != slowest.session()) *beat.add_workers() = newest;
  }
}

// Beats between two that tell the load.
constexpr uint64_t kLoadEveryBeats = 2;
// What is told of segments: so many, and the keys of so many. A beat has 16 KiB of load at most.
constexpr int kLoadsMax = 512;
constexpr int kWithKeysMax = 16;

// Adds the load of one segment; one that nobody asks for anything, and that holds nothing, is left out.
void AddLoad(uint32_t segment, const v1::SegmentLoad& load, v1::ShardLoad& sum) {
  if (load.pushed_per_s() + load.read_per_s() + load.bytes() == 0) return;
  sum.set_pushed_per_s(sum.pushed_per_s() + load.pushed_per_s());
  sum.set_read_per_s(sum.read_per_s() + load.read_per_s());
  sum.set_bytes_per_s(sum.bytes_per_s() + load.bytes_per_s());
  v1::SegmentLoad& one = *sum.add_segments();
  one = load;
  one.set_segment(segment);
}

// The hottest first, and no more than may be told.
void Bound(v1::ShardLoad& load) {
  auto& segments = *load.mutable_segments();
  std::ranges::sort(segments, std::greater<>(), [](const v1::SegmentLoad& one) {
    return std::tuple(one.pushed_per_s() + one.read_per_s(), one.bytes(), ~one.segment());
  });
  if (segments.size() > kLoadsMax) segments.DeleteSubrange(kLoadsMax, segments.size() - kLoadsMax);
  for (int i = kWithKeysMax; i < segments.size(); ++i) segments[i].clear_keys();
}

// All but the log.
void SetMemory(const Shard& shard, v1::ShardMemory& memory) {
  const Context& context = shard.context();
  if (shard.options().process_memory != nullptr) {
    const ProcessMemory process = shard.options().process_memory();
    memory.set_resident(process.resident);
    memory.set_allocator(process.allocator);
  }
  memory.set_staged(shard.staged_bytes());
  memory.set_streams(context.streams().held());
  memory.set_replies(context.replies().taken());
  if (const Disk* disk = context.disk()) {
    memory.set_disk_queue(disk->pending_bytes());
    memory.set_engine(disk->engine_bytes());
  }
}

// What a survey sees of one segment.
struct Seen {
  uint64_t rows = 0;
  uint64_t parked = 0;
  ReplicationState replication;
  std::vector<v1::WorkerClock> workers;
  std::map<uint64_t, uint64_t> behind;  // clocks, by session
  std::vector<v1::JobClock> jobs;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> held;  // rows and bytes, by job
  v1::Known known;
  std::string not_serving;
  std::vector<v1::LearnerProgress> learners;
  v1::SegmentLoad load;
};

void SeeTables(const log::Segment& segment, Seen& seen) {
  for (const auto& [id, table] : segment.tables()) {
    auto& [rows, bytes] = seen.held[table->info->job.v];
    rows += table->rows.rows();
    bytes += table->rows.bytes();
    seen.load.set_bytes(seen.load.bytes() + table->rows.bytes());
  }
}

void SeeClocks(const log::Segment& segment, Seen& seen) {
  for (const auto& [job, clock] : segment.jobs()) {
    v1::JobClock& of_job = seen.jobs.emplace_back();
    of_job.set_job(job.v);
    of_job.set_min_clock(clock.min_clock());
    uint64_t fastest = 0;
    for (const auto& [session, worker] : clock.workers()) fastest = std::max(fastest, worker.counted);
    for (const auto& [session, worker] : clock.workers()) {
      seen.behind[session.v] = fastest - worker.counted;
      v1::WorkerClock& of_worker = seen.workers.emplace_back();
      of_worker.set_job(job.v);
      of_worker.set_session(session.v);
      of_worker.set_clock(worker.counted);
      of_worker.set_rank(worker.rank);
    }
  }
}

// On the segment's executor.
void See(SegmentHost& host, Seen& seen) {
  seen.replication = ReplicationOf(host);
  if (const log::Segment* state = host.state()) LearnFrom(*state, seen.known);
  if (host.primary() == nullptr) return;
  seen.rows = host.primary()->segment().rows();
  seen.parked = host.primary()->parked();
  seen.not_serving = host.primary()->WhyNotServing();
  seen.learners = host.primary()->replicas().Progress(host.primary()->segment());
  SeeTables(host.primary()->segment(), seen);
  if (LoadMeter* load = host.load()) seen.load.MergeFrom(load->Report());
  SeeClocks(host.primary()->segment(), seen);
}

// All that is not of single segments.
void SetShard(Shard& shard, v1::BeatRequest& beat) {
  const auto now = shard.view();
  beat.set_shard(now->self.shard.v);
  beat.set_incarnation(now->self.incarnation.v);
  beat.set_cluster(now->cluster);
  beat.set_map_version(now->map_version().v);
  beat.set_catalogue_version(now->catalogue->version().v);
  beat.set_bytes(shard.bytes_held());
  beat.set_bytes_budget(shard.options().memory_budget_bytes);
  SetMemory(shard, *beat.mutable_memory());
  beat.set_rows_pushed(shard.rows_updated());
  beat.set_rows_pulled(shard.context().rows_pulled());
  beat.set_version(std::string(kVersion));
  beat.set_durable(shard.options().durable);
  beat.set_emptied(now->emptied);
  if (const Disk* disk = shard.context().disk()) {
    *beat.mutable_disk() = ToProto(disk->health());
    beat.set_position(disk->synced_position());
  }
  v1::Known& known = *beat.mutable_known();
  known.set_map_version(beat.map_version());
  known.set_incarnation(beat.incarnation());
  known.set_term(now->term);
  known.set_catalogue_version(beat.catalogue_version());
}

// What is gathered of all segments before it is told.
struct Gathered {
  std::map<std::string, std::vector<size_t>> not_serving;  // segments, by the reason
  std::map<uint32_t, uint64_t> min_clocks;                 // by job
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> held;  // rows and bytes, by job
  std::map<uint64_t, v1::WorkerClock> workers;             // by session
};

void AddKnown(const v1::Known& seen, v1::Known& known) {
  known.set_session(std::max(known.session(), seen.session()));
  known.set_job(std::max(known.job(), seen.job()));
  known.set_table(std::max(known.table(), seen.table()));
  known.set_cut(std::max(known.cut(), seen.cut()));
  known.set_change(std::max(known.change(), seen.change()));
}

void AddJobs(const Seen& seen, Gathered& all) {
  for (const auto& [job, rows_and_bytes] : seen.held) {
    all.held[job].first += rows_and_bytes.first;
    all.held[job].second += rows_and_bytes.second;
    all.min_clocks.emplace(job, UINT64_MAX);  // a smaller one is known, or it has none
  }
  for (const v1::JobClock& job : seen.jobs) {
    const auto [it, fresh] = all.min_clocks.emplace(job.job(), job.min_clock());
    if (!fresh) it->second = std::min(it->second, job.min_clock());
  }
  for (const v1::WorkerClock& worker : seen.workers) {
    const auto [it, fresh] = all.workers.emplace(worker.session(), worker);
    if (!fresh) it->second.set_clock(std::min(it->second.clock(), worker.clock()));
  }
}

void AddSegment(size_t segment, const Seen& seen, Gathered& all, Shard::State& state) {
  v1::BeatRequest& beat = state.beat;
  if (!seen.not_serving.empty()) all.not_serving[seen.not_serving].push_back(segment);
  beat.set_rows(beat.rows() + seen.rows);
  beat.set_parked(beat.parked() + seen.parked);
  state.replication += seen.replication;
  AddLoad(static_cast<uint32_t>(segment), seen.load, state.load);
  AddKnown(seen.known, *beat.mutable_known());
  for (const v1::LearnerProgress& learner : seen.learners) *beat.add_learners() = learner;
  for (const auto& [session, clocks] : seen.behind) {
    state.behind[session] = std::max(state.behind[session], clocks);
  }
  AddJobs(seen, all);
}

void Tell(Gathered& all, Shard::State& state) {
  v1::BeatRequest& beat = state.beat;
  beat.mutable_memory()->set_log(state.replication.log_bytes);
  for (const auto& [why, segments] : all.not_serving) beat.add_not_serving(NotServing(segments, why));
  beat.set_primaries(static_cast<uint32_t>(state.replication.primaries));
  beat.set_lost(static_cast<uint32_t>(state.replication.lost));
  for (const auto& [job, min_clock] : all.min_clocks) {
    v1::JobClock* of_job = beat.add_jobs();
    of_job->set_job(job);
    of_job->set_min_clock(min_clock == UINT64_MAX ? 0 : min_clock);
    of_job->set_rows(all.held[job].first);
    of_job->set_bytes(all.held[job].second);
  }
  for (const auto& [session, worker] : all.workers) *beat.add_workers() = worker;
}

void AddBusy(Shard& shard, v1::ShardLoad& load) {
  for (const auto& executor : shard.context().executors())
    load.set_busy_us(load.busy_us() + static_cast<uint64_t>(absl::ToInt64Microseconds(executor->busy())));
}

}  // namespace

void Shard::Describe(std::function<void(v1::BeatRequest)> done) {
  const bool with_load = described_.fetch_add(1, std::memory_order_relaxed) % kLoadEveryBeats == 0;
  Survey([with_load, done = std::move(done)](State state) {
    KeepSlowestAndNewest(state.beat);
    if (with_load) *state.beat.mutable_load() = std::move(state.load);
    done(std::move(state.beat));
  });
}

void Shard::Survey(std::function<void(State)> done) {
  auto seen = std::make_shared<std::vector<Seen>>(view()->segments());
  context_.ForEachSegment(
      [seen](SegmentHost& host) {
        if (host.id().v < seen->size()) See(host, (*seen)[host.id().v]);  // or the first map came in between
      },
      [this, seen, done = std::move(done)] {
        State state;
        SetShard(*this, state.beat);
        Gathered all;
        for (size_t i = 0; i < seen->size(); ++i) AddSegment(i, (*seen)[i], all, state);
        Tell(all, state);
        AddBusy(*this, state.load);
        Bound(state.load);
        done(std::move(state));
      });
}

}  // namespace paceline::shard
