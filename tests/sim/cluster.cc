#include "tests/sim/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/ring/hash.h"

namespace paceline::sim {
namespace {

// After the last fault everything must have ended within this.
constexpr absl::Duration kProgress = absl::Seconds(60);
// Steps between two looks at who would answer.
constexpr uint64_t kOverlapEvery = 16;
// A run of more steps than this goes in circles.
constexpr absl::Duration kLooksForLosses = absl::Milliseconds(250);
// Users come so long after a job was made of an older snapshot.
constexpr absl::Duration kRestoresFirst = absl::Milliseconds(800);
constexpr uint64_t kStepsMax = 3'000'000;

coordinator::Options CoordinatorOptions(const Plan& plan) {
  coordinator::Options options;
  options.shards = plan.shards;
  options.ring_bits = plan.ring_bits;
  options.replicas = plan.replicas;
  options.new_cluster = plan.cluster;
  options.session_timeout = absl::Milliseconds(1500);
  options.keep_alive = absl::Milliseconds(250);
  options.shard_silent = absl::Seconds(1);
  options.request_timeout = absl::Seconds(10);
  options.pause = absl::Milliseconds(700);
  options.moves_per_shard = 8;  // so that more of them meet
  options.by_load = {.on = plan.by_load,
                     .threshold = 1.05,
                     .lasts = absl::Milliseconds(300),
                     .rests = absl::Seconds(1),
                     .rows_per_s_min = 1};
  return options;
}

}  // namespace

Cluster::Cluster(const Plan& plan)
    : plan_(plan),
      world_(plan.seed, uint32_t{1} << plan.ring_bits),
      share_(plan.snapshots == 0 ? nullptr : std::make_unique<SnapshotShare>(plan.seed, world_.scheduler)),
      watch_(
          world_.invariants, world_.verdict, world_.marks, OptionsOf(0).window_bytes,
          [this](const std::string& host) {
            for (const auto& shard : shards_) {
              if (shard->host().name == host) return shard->self();
            }
            return ring::Member();
          },
          [this](const std::string& host) {
            for (const auto& shard : shards_) {
              if (shard->host().name == host) shard->OnPushHandled();
            }
          },
          [this](const std::string& what) { world_.Trace(what); }),
      coordinator_(world_, CoordinatorOptions(plan), share_.get()),
      operator_(world_, coordinator_, plan.operations, plan.bounds, plan.deletes),
      elastic_(world_, coordinator_, shards_, plan.elastic),
      stranger_(world_, shards_, plan.seed),
      promptness_(world_.verdict),
      calm_(world_, plan.calm, [this] { return last_fault_; }),
      calmly_(ring::Mix64(/*seed=*/117, plan.seed)),
      started_(world_.Now()),
      last_fault_(world_.Now()) {
  world_.network.watcher = &watch_;
  watch_.on_refusal = [this](const auto& refusal, SessionId session) { calm_.OnRefusal(refusal, session); };
  coordinator_.on_map = [this] { calm_.OnMap(); };
  coordinator_.on_evicted = [this](SessionId session) {
    const auto lives = [&](const auto& client) { return client->up() && client->session() == session; };
    calm_.OnEvicted(session, std::ranges::any_of(workers_, lives) || std::ranges::any_of(readers_, lives));
  };
  world_.invariants.durable = plan.durable;
  world_.changes_max = plan.changes_max;
  world_.work.SetInOrder(plan.work_in_order);
  world_.reduces = plan.reduces;
  world_.prioritised = plan.prioritised;
  world_.filtered = plan.filtered;
  world_.lends = world_.network.lends = plan.lends;
  for (uint32_t s = 0; s < plan.shards + plan.late_shards; ++s) {
    shards_.push_back(
        std::make_unique<SimShard>(world_, coordinator_, s, plan.disks, plan.durable, share_.get()));
    shards_.back()->on_wish = [this, shard = shards_.back().get()](const auto& request, const auto& wish) {
      calm_.OnWish(shard->host().name, wish);
      OnWish(*shard, wish);
      RepeatLate(*shard, request, wish);
    };
  }
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    const WorkerPlan& of_worker = plan.workers[w];
    workers_.push_back(std::make_unique<Worker>(world_, coordinator_, absl::StrCat("worker-", w),
                                                of_worker.aside ? "aside" : "job", of_worker,
                                                of_worker.aside ? plan.together_aside : plan.together,
                                                of_worker.aside ? plan.clocks_aside : plan.clocks));
  }
  for (uint32_t r = 0; r < plan.readers; ++r) {
    readers_.push_back(
        std::make_unique<Reader>(world_, coordinator_, absl::StrCat("reader-", r), r == 0 ? "job" : "aside"));
  }
  if (share_ == nullptr) return;
  snapshotter_ = std::make_unique<Snapshotter>(world_, coordinator_, *share_, plan.snapshots);
  snapshotter_->on_restored = [this](const std::string& job) { WorkIn(job); };
  share_->on_begun = [this](const std::string& name) { world_.invariants.OnSnapshotBegun(name); };
  share_->on_complete = [this](const std::string& name) {
    for (const auto& shard : shards_) shard->NoteCommitted();
    world_.invariants.Cut(name, share_->contents());
    world_.invariants.OnSnapshotComplete(name);
  };
}

Cluster::~Cluster() {
  for (const auto& worker : workers_) worker->Kill();
  for (const auto& reader : readers_) reader->Kill();
  world_.network.watcher = nullptr;
  world_.network.Shut();
  coordinator_.Kill();
  world_.scheduler.Clear();
}

std::string Cluster::LeaveSnapshot() {
  Plan before = Plan::WithoutFaults(plan_.seed);
  before.restores_first = false;
  before.cluster = uint64_t{2} << 32;
  before.replicas = before.operations = 0;
  before.disks = before.durable = false;
  before.clocks = before.clocks_aside = 3;
  Cluster cluster(before);
  const Outcome outcome = cluster.Run();
  for (const Violation& violation : outcome.violations) {
    world_.verdict.Violated(violation.invariant, "in the cluster before: " + violation.what);
  }
  const std::string name = cluster.snapshotter_->last();
  if (name.empty()) return name;
  share_->contents().folders[name] = cluster.share_->contents().folders[name];
  world_.invariants.OnSnapshotKnown(name, cluster.world_.invariants.RowsOf(name));
  return name;
}

void Cluster::WorkIn(const std::string& job) {
  if (WorkersDone() || world_.truth.JobNamed(job) == JobId()) return;
  for (int w = 0; w < 2; ++w) {
    WorkerPlan plan{
        .staleness = 0, .bsp = true, .think = absl::Milliseconds(5), .starts_at = {}, .clocks = 6};
    workers_.push_back(std::make_unique<Worker>(world_, coordinator_, absl::StrCat(job, "-", w), job, plan,
                                                /*together=*/2, /*clocks=*/UINT64_MAX));
    workers_.back()->Begin();
  }
  world_.marks.Hit("workers go on in a job that was made of a snapshot");
}

void Cluster::Begin() {
  if (plan_.restores_first) left_ = LeaveSnapshot();
  coordinator_.Start();
  for (uint32_t s = 0; s < plan_.shards; ++s) shards_[s]->Start();
  elastic_.Begin(plan_.shards);
  if (!left_.empty()) {
    users_wait_ = kRestoresFirst;
    world_.scheduler.After(kRestoresFirst / 8, [this] { snapshotter_->RestoreFirst(left_); });
  }
  world_.scheduler.After(users_wait_, [this] { BeginUsers(); });
  Slew();
  if (plan_.disks) world_.scheduler.After(kLooksForLosses, [this] { LookForLosses(); });
  for (const Fault& fault : plan_.faults) {
    world_.scheduler.After(fault.at, [this, kind = fault.kind] { Strike(kind); });
  }
  last_fault_ =
      started_ + users_wait_ + (plan_.faults.empty() ? absl::ZeroDuration() : plan_.faults.back().at);
}

void Cluster::BeginUsers() {
  for (size_t w = 0; w < plan_.workers.size(); ++w) {
    world_.scheduler.After(
        plan_.workers[w].starts_at + world_.Between(absl::ZeroDuration(), absl::Milliseconds(5)),
        [worker = workers_[w].get()] { worker->Begin(); });
  }
  for (const auto& reader : readers_) reader->Begin();
  operator_.Begin();
  stranger_.Begin();
  if (snapshotter_ != nullptr) snapshotter_->Begin();
}

bool Cluster::WorkersDone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->done(); });
}

bool Cluster::ReadersDone() const {
  return std::all_of(readers_.begin(), readers_.end(), [](const auto& reader) { return reader->done(); });
}

size_t Cluster::UnderReplicated() {
  if (plan_.replicas == 0) return 0;
  coordinator::CoordinatorCore* core = coordinator_.core();
  return core == nullptr ? SIZE_MAX : core->gauges().segments_under_replicated;
}

std::string Cluster::WhoIsLeft() {
  std::vector<std::string> left;
  for (const auto& worker : workers_) {
    if (!worker->done()) left.push_back(worker->Describe());
  }
  for (const auto& reader : readers_) {
    if (!reader->done()) left.push_back(reader->Describe());
  }
  if (!operator_.done()) left.push_back(operator_.Describe());
  if (!elastic_.done()) left.push_back(elastic_.Describe());
  if (snapshotter_ != nullptr && !snapshotter_->done()) left.push_back(snapshotter_->Describe());
  if (const size_t segments = UnderReplicated(); segments > 0) {
    left.push_back(absl::StrCat(segments, " segments have too few replicas"));
  }
  return absl::StrJoin(left, "; ");
}

void Cluster::RunUntil(const std::function<bool()>& done) {
  while (!done() && world_.verdict.ok()) {
    const bool in_time = world_.Now() < last_fault_ + kProgress && world_.scheduler.steps() < kStepsMax;
    if (in_time && world_.scheduler.RunOne()) {
      if (world_.scheduler.steps() % kOverlapEvery == 0) {
        NoOverlap();
        InSync();
        Prompt();
      }
      continue;
    }
    world_.verdict.Violated("Progress", absl::StrCat(absl::FormatDuration(world_.Now() - last_fault_),
                                                     " after the last fault: ", WhoIsLeft()));
  }
}

// At any true time at most one shard would answer for a segment.
void Cluster::NoOverlap() {
  std::map<SegmentId, SimShard*> primaries;
  for (const auto& shard : shards_) {
    if (!shard->up()) continue;
    shard->ForEachPrimary([&](log::Primary& primary) {
      if (!primary.MayAnswer()) return;
      const auto [it, first] = primaries.emplace(primary.segment().id(), shard.get());
      if (first) return;
      world_.verdict.Violated("NoOverlap",
                              absl::StrCat("segment ", it->first.v, ": ", it->second->host().name, " and ",
                                           shard->host().name, " would both answer"));
    });
  }
}

// The position from which a member could go on, as its shard stands now.
Lsn Cluster::HeldBy(shard::SegmentHost& host) const {
  Lsn held;
  if (host.primary() != nullptr) held = host.primary()->segment().version();
  if (host.follower() != nullptr && host.follower()->whole()) held = host.follower()->position().lsn;
  return plan_.durable ? std::min(held, host.disk()->durable()) : held;
}

void Cluster::InSync() {
  const v1::Map& map = coordinator_.map();
  for (const auto& shard : shards_) {
    if (!shard->up()) continue;
    const auto is_self = [&](const v1::Member& member) {
      return ShardId(member.shard()) == shard->self().shard &&
             Incarnation(member.incarnation()) == shard->self().incarnation;
    };
    shard->ForEachHost([&](shard::SegmentHost& host) {
      const v1::SegmentConfig& config = map.segments(static_cast<int>(host.id().v));
      if (host.disk() != nullptr && !shard->shard().view()->emptied) {
        world_.invariants.Kept(shard->host().name, host.id(), shard->disk()->Has(host.id()),
                               host.disk()->durable());
      }
      if (!is_self(config.primary()) && std::ranges::none_of(config.replicas(), is_self)) return;
      world_.invariants.InSync(shard->self(), host.id(), HeldBy(host));
    });
  }
}

void Cluster::Prompt() {
  const v1::Map& map = coordinator_.map();
  if (map.segments_size() == 0) return;
  for (const auto& shard : shards_) {
    if (shard->up()) promptness_.Look(*shard, map, plan_.durable, world_.Now());
  }
}

void Cluster::CheckSnapshots() {
  if (share_ == nullptr) return;
  for (const auto& [name, files] : share_->contents().folders) {
    if (!files.contains("manifest.json") || name == left_) continue;
    world_.invariants.Cut(name, share_->contents());
    if (share_->MayBeThere(name)) continue;
    world_.verdict.Violated("Cut", absl::StrCat("snapshot ", name, " was given up, and is there"));
  }
}

void Cluster::CheckWork() {
  if (std::ranges::none_of(plan_.workers, &WorkerPlan::work)) return;
  RunUntil([this] { return coordinator_.core() != nullptr && !coordinator_.aged(); });
  if (!world_.verdict.ok()) return;
  const v1::StatusReply status = coordinator_.core()->Status();
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.name() == "job" && job.work_size() == 1) return world_.work.Check(job.work(0));
  }
  world_.verdict.Violated("Work", "the job's work queue is gone");
}

void Cluster::CheckQuiet() {
  CheckWork();
  NoOverlap();
  CheckSnapshots();
  coordinator_.CheckFloor();
  for (const auto& shard : shards_) {
    if (shard->up()) {
      const shard::StreamBudget& budget = shard->shard().context().streams();
      if (budget.held() > budget.bytes_max() + budget.streams()) {
        world_.verdict.Violated("Bounded", absl::StrCat(shard->host().name, ": streams hold ", budget.held(),
                                                        " bytes; the budget is ", budget.bytes_max()));
      }
    }
    shard->ForEachPrimary([&](log::Primary& primary) {
      if (primary.epoch() < world_.invariants.ledger(primary.segment().id()).epoch) return;
      world_.invariants.OnQuiet(primary.segment());
      for (const auto& other : shards_) {
        other->ForEachHost([&](shard::SegmentHost& host) {
          if (host.id() != primary.segment().id() || host.follower() == nullptr || !host.follower()->whole())
            return;
          world_.invariants.Equal(primary.segment(), *host.follower()->segment(), other->host().name);
        });
      }
      if (primary.parked() > log::Primary::kParkedMax) world_.verdict.Violated("Bounded", "parked reads");
    });
  }
}

void Cluster::BeginHeirs() {
  for (uint32_t h = 0; h < plan_.heirs; ++h) {
    WorkerPlan plan{.staleness = 0, .think = absl::Milliseconds(5), .starts_at = {}, .clocks = 8};
    plan.dies_after = world_.Between(absl::ZeroDuration(), absl::Milliseconds(40));
    workers_.push_back(std::make_unique<Worker>(world_, coordinator_, absl::StrCat("heir-", h), "job", plan,
                                                plan_.heirs,
                                                /*clocks=*/UINT64_MAX));
    workers_.back()->Begin();
  }
}

void Cluster::LookForLosses() {
  world_.scheduler.After(kLooksForLosses, [this] { LookForLosses(); });
  if (coordinator_.host().Paused(world_.Now())) return;
  coordinator_.Visit([this](coordinator::CoordinatorCore& core) {
    const auto reply = core.RecoverSegments({});
    if (!reply.ok()) return;
    for (const auto& segment : reply->waiting()) {
      if (segment.nothing_found()) world_.invariants.OnNothingFound(SegmentId(segment.segment()));
    }
  });
}

void Cluster::TraceSegments() {
  for (const auto& shard : shards_) {
    shard->ForEachHost([&](shard::SegmentHost& host) {
      if (host.follower() != nullptr) {
        world_.Trace(absl::StrCat(shard->host().name, ", segment ", host.id().v, ": follows in epoch ",
                                  host.epoch().v, ", holds ", host.follower()->position().lsn.v));
      }
      if (host.primary() == nullptr) return;
      log::Primary& primary = *host.primary();
      std::string text = absl::StrCat(
          shard->host().name, ", segment ", host.id().v, ": primary in epoch ", primary.epoch().v, ", at ",
          primary.segment().version().v, ", committed ", primary.replicas().committed().v,
          primary.MayAnswer() ? "" : ", may not answer", ", waits for [", primary.replicas().WaitsFor(),
          "], ", primary.parked(), " reads parked, ", primary.staging().bytes(), " bytes staged");
      for (const auto& [job, clock] : primary.segment().jobs()) {
        absl::StrAppend(&text, "; job ", job.v, " min clock ", clock.min_clock(), " shown ",
                        primary.MinClockShown(job));
        for (const auto& [session, worker] : clock.workers()) {
          absl::StrAppend(&text, ", session ", session.v, " counted ", worker.counted, " pending ",
                          worker.pending.size());
        }
      }
      world_.Trace(text);
    });
  }
}

Outcome Cluster::Run() {
  Begin();
  RunUntil([this] { return WorkersDone(); });
  BeginHeirs();
  RunUntil([this] { return WorkersDone(); });
  for (const auto& reader : readers_) reader->Stop();
  operator_.Stop();
  elastic_.Stop();
  RunUntil([this] { return ReadersDone() && operator_.done() && elastic_.done() && UnderReplicated() == 0; });
  if (snapshotter_ != nullptr) {
    snapshotter_->Stop();
    RunUntil([this] { return snapshotter_->done() && UnderReplicated() == 0; });
  }
  if (plan_.calm) EndCalmly();
  if (world_.verdict.ok()) CheckQuiet();
  if (!world_.verdict.ok()) TraceSegments();

  Outcome outcome;
  outcome.clocks = UINT64_MAX;
  for (uint32_t s = 0; s < uint32_t{1} << plan_.ring_bits; ++s) {
    const JobId job = world_.truth.JobNamed("job");
    outcome.clocks = std::min(outcome.clocks, world_.invariants.ledger(SegmentId(s)).MinClock(job));
    for (const auto& shard : shards_) {
      shard->ForEachPrimary([&](log::Primary& primary) {
        if (primary.segment().id().v == s) world_.history.Add(primary.segment().Hash());
      });
    }
  }
  world_.history.Add(world_.scheduler.steps());
  world_.history.Add(world_.random.Next());
  outcome.violations = world_.verdict.violations();
  outcome.marks = world_.marks;
  outcome.faults = faults_;
  for (const char* kind : {"call lost", "call late", "call doubled", "reply lost"}) {
    if (const uint64_t times = world_.marks.Of(absl::StrCat("fault: ", kind))) outcome.faults[kind] = times;
  }
  outcome.hash = world_.history.hash();
  outcome.steps = world_.scheduler.steps();
  outcome.parts = world_.truth.parts();
  outcome.parts_acked = world_.truth.parts_acked();
  outcome.took = world_.Now() - started_;
  return outcome;
}

}  // namespace paceline::sim
