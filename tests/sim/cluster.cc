#include "tests/sim/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline::sim {
namespace {

// After the last fault everything must have ended within this.
constexpr absl::Duration kProgress = absl::Seconds(60);
// A run of more steps than this goes in circles.
constexpr uint64_t kStepsMax = 3'000'000;

coordinator::Options CoordinatorOptions(const Plan& plan) {
  coordinator::Options options;
  options.shards = plan.shards;
  options.ring_bits = plan.ring_bits;
  options.session_timeout = absl::Milliseconds(1500);
  options.keep_alive = absl::Milliseconds(250);
  options.shard_silent = absl::Seconds(1);
  options.request_timeout = absl::Seconds(10);
  options.pause = absl::Milliseconds(700);
  return options;
}

}  // namespace

Cluster::Cluster(const Plan& plan)
    : plan_(plan),
      world_(plan.seed, uint32_t{1} << plan.ring_bits),
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
      coordinator_(world_, CoordinatorOptions(plan)),
      started_(world_.Now()),
      last_fault_(world_.Now()) {
  world_.network.watcher = &watch_;
  for (uint32_t s = 0; s < plan.shards; ++s) {
    shards_.push_back(std::make_unique<SimShard>(world_, coordinator_, s));
  }
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    workers_.push_back(std::make_unique<Worker>(world_, coordinator_, absl::StrCat("worker-", w),
                                                plan.workers[w], plan.together, plan.clocks));
  }
  for (uint32_t r = 0; r < plan.readers; ++r) {
    readers_.push_back(std::make_unique<Reader>(world_, coordinator_, absl::StrCat("reader-", r)));
  }
}

Cluster::~Cluster() {
  for (const auto& worker : workers_) worker->Kill();
  for (const auto& reader : readers_) reader->Kill();
  world_.network.watcher = nullptr;
  world_.network.Shut();
  coordinator_.Kill();
  world_.scheduler.Clear();
}

void Cluster::Begin() {
  coordinator_.Start();
  for (const auto& shard : shards_) shard->Start();
  for (size_t w = 0; w < workers_.size(); ++w) {
    world_.scheduler.After(
        plan_.workers[w].starts_at + world_.Between(absl::ZeroDuration(), absl::Milliseconds(5)),
        [worker = workers_[w].get()] { worker->Begin(); });
  }
  for (const auto& reader : readers_) reader->Begin();
  for (const Fault& fault : plan_.faults) {
    world_.scheduler.After(fault.at, [this, kind = fault.kind] { Strike(kind); });
  }
  last_fault_ = started_ + (plan_.faults.empty() ? absl::ZeroDuration() : plan_.faults.back().at);
}

bool Cluster::WorkersDone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->done(); });
}

bool Cluster::ReadersDone() const {
  return std::all_of(readers_.begin(), readers_.end(), [](const auto& reader) { return reader->done(); });
}

std::string Cluster::WhoIsLeft() const {
  std::vector<std::string> left;
  for (const auto& worker : workers_) {
    if (!worker->done()) left.push_back(worker->Describe());
  }
  for (const auto& reader : readers_) {
    if (!reader->done()) left.push_back(reader->Describe());
  }
  return absl::StrJoin(left, "; ");
}

void Cluster::RunUntil(const std::function<bool()>& done) {
  while (!done() && world_.verdict.ok()) {
    const bool in_time = world_.Now() < last_fault_ + kProgress && world_.scheduler.steps() < kStepsMax;
    if (in_time && world_.scheduler.RunOne()) continue;
    world_.verdict.Violated("Progress", absl::StrCat(absl::FormatDuration(world_.Now() - last_fault_),
                                                     " after the last fault: ", WhoIsLeft()));
  }
}

// At any true time at most one shard would answer for a segment.
void Cluster::NoOverlap() {
  std::map<SegmentId, SimShard*> primaries;
  for (const auto& shard : shards_) {
    shard->ForEachPrimary([&](log::Primary& primary) {
      const auto [it, first] = primaries.emplace(primary.segment().id(), shard.get());
      if (first) return;
      world_.verdict.Violated("OnePrimary",
                              absl::StrCat("segment ", it->first.v, ": ", it->second->host().name, " and ",
                                           shard->host().name, " would both answer"));
    });
  }
}

void Cluster::CheckQuiet() {
  NoOverlap();
  for (const auto& shard : shards_) {
    shard->ForEachPrimary([&](log::Primary& primary) {
      world_.invariants.OnQuiet(primary.segment());
      if (primary.parked() > log::Primary::kParkedMax) world_.verdict.Violated("Bounded", "parked reads");
    });
  }
}

Outcome Cluster::Run() {
  Begin();
  RunUntil([this] { return WorkersDone(); });
  for (const auto& reader : readers_) reader->Stop();
  RunUntil([this] { return ReadersDone(); });
  if (world_.verdict.ok()) CheckQuiet();

  Outcome outcome;
  outcome.clocks = UINT64_MAX;
  for (uint32_t s = 0; s < uint32_t{1} << plan_.ring_bits; ++s) {
    outcome.clocks = std::min(outcome.clocks, world_.invariants.ledger(SegmentId(s)).min_clock);
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
