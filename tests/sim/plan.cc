#include "tests/sim/plan.h"

#include <algorithm>

#include "libs/ring/hash.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kFaultsWithin = absl::Milliseconds(1800);

// Members of a segment beside its primary.
constexpr uint32_t kReplicas[] = {0, 0, 0, 1, 1, 1, 2};

// In one seed of eight there are snapshots; a draw of their own, so that the others run as without it. Those
// that find planted bugs (bugs.h) are among the others.
uint32_t DrawSnapshots(uint64_t seed) {
  const uint64_t drawn = ring::Mix64(/*seed=*/88, seed);
  return drawn % 8 == 5 ? 6 + static_cast<uint32_t>(drawn / 8 % 9) : 0;
}

// How many workers of a seed are bulk synchronous: all, in every fifth.
double BspChance(uint64_t seed) {
  return seed % 5 == 0 ? 1.0 : 0.3;
}

WorkerPlan DrawWorker(world::Random& random, double bsp) {
  WorkerPlan worker;
  worker.refresh = world::Chance(random, 0.5);
  worker.catches_up = world::Chance(random, 0.3);
  const uint64_t drawn = world::Uniform(random, 5);
  if (drawn < 4) worker.staleness = drawn == 3 ? 5 : drawn;
  worker.think = absl::Milliseconds(2 + world::Uniform(random, 25));
  worker.bsp = world::Chance(random, bsp);
  if (worker.bsp) worker.staleness = 0;
  return worker;
}

// A segment with one member is moved with its rows; what others have members for would lose it.
FaultKind Possible(FaultKind kind, const Plan& plan) {
  const uint32_t replicas = plan.replicas;
  if (replicas == 0 && plan.disks) {  // a shard that ends goes on from its disk instead
    if (kind == FaultKind::kShardTerm) return kind;
    Plan durable;
    durable.durable = true;
    const bool possible =
        Possible(kind, durable) == kind && kind != FaultKind::kMove && kind != FaultKind::kDiskDamaged;
    return possible ? kind : FaultKind::kShardKill;
  }
  // These drain shards anyway.
  const FaultKind move = plan.elastic > 0 ? FaultKind::kShardPause : FaultKind::kMove;
  const bool moves = plan.elastic > 0 && (kind == FaultKind::kPartition || kind == FaultKind::kOneWay);
  if (moves) return kind;
  switch (kind) {
    case FaultKind::kMembersKill:
    case FaultKind::kAllKill:
    case FaultKind::kDiskForgets:  // acknowledged parts of all at once
      return plan.durable ? kind : FaultKind::kShardKill;
    case FaultKind::kShardTerm:
    case FaultKind::kShardKill:
    case FaultKind::kPartition:
    case FaultKind::kOneWay:
    case FaultKind::kHandOver:
    case FaultKind::kSwapUnanswered:
      return replicas == 0 ? move : kind;
    case FaultKind::kMove:
      return replicas == 0 ? move : FaultKind::kHandOver;
    default:
      return kind;
  }
}

// Work queues, in one seed of six; a draw of its own, as for snapshots.
void AddWork(Plan& plan) {
  if (ring::Mix64(/*seed=*/116, plan.seed) % 6 != 2) return;
  for (WorkerPlan& worker : plan.workers) worker.work = !worker.aside;
  plan.work_in_order = ring::Mix64(/*seed=*/1169, plan.seed) % 2 == 0;
}

// Subscribers, in one seed of six; a draw of its own, as for snapshots. Some segments soon forget what has
// changed.
void AddSubscribers(Plan& plan) {
  if (ring::Mix64(/*seed=*/191, plan.seed) % 6 != 2) return;
  world::SplitMix64 random(ring::Mix64(/*seed=*/192, plan.seed));
  for (WorkerPlan& worker : plan.workers) {
    worker.told = world::Chance(random, 0.8);
    worker.told_each = world::Chance(random, 0.5);
    worker.told_few = ring::Mix64(/*seed=*/1970, plan.seed) % 2 == 0;
  }
  if (world::Chance(random, 0.5)) plan.changes_max = 1 + world::Uniform(random, 6);
}

// Bounds that workers follow, in one seed of six; a draw of its own, as for snapshots.
void AddBounds(Plan& plan) {
  if (ring::Mix64(/*seed=*/3923, plan.seed) % 6 != 3) return;
  world::SplitMix64 random(ring::Mix64(/*seed=*/3924, plan.seed));
  for (WorkerPlan& worker : plan.workers) {
    const bool bounded = worker.staleness.has_value() && !worker.bsp && !worker.told;
    if (!bounded || !world::Chance(random, 0.8)) continue;
    worker.adaptive = true;
    worker.staleness = kBoundMost;
  }
  plan.bounds = true;
  plan.operations += 8;
}

// Value bounds, in one seed of six; a draw of its own, as for snapshots. What items of work train must be
// pushed, so these have none.
void AddValueBounds(Plan& plan) {
  if (ring::Mix64(/*seed=*/193, plan.seed) % 6 != 3 || plan.workers[0].work) return;
  world::SplitMix64 random(ring::Mix64(/*seed=*/194, plan.seed));
  for (WorkerPlan& worker : plan.workers) {
    worker.bounded = world::Chance(random, 0.8);
    worker.decays = world::Chance(random, 0.3);
  }
}

// Filters that hold back pushes to the counting table, in one seed of six; a draw of their own, as for
// snapshots. What items of work train must be pushed, so these have none; nor do jobs that end while they
// train.
void AddPushFilters(Plan& plan) {
  if (ring::Mix64(/*seed=*/195, plan.seed) % 6 != 4 || plan.workers[0].work || plan.snapshots > 0) return;
  world::SplitMix64 random(ring::Mix64(/*seed=*/196, plan.seed));
  for (WorkerPlan& worker : plan.workers) {
    const uint64_t drawn = world::Uniform(random, 4);
    const bool decays = world::Chance(random, 0.5);
    const bool small = world::Chance(random, 0.3);
    if (worker.aside || worker.bounded || drawn == 3) continue;
    PushFilter& filter = worker.push_filter;
    if (drawn == 0) filter.top_k = 0.3;
    if (drawn == 1) filter.skip = 0.6;
    if (drawn == 2) filter.significant = 20;
    filter.decays = drawn == 2 && decays;
    if (small) filter.held_bytes_max = 400;  // some rows
  }
}

// Cuts, in two seeds of five.
void AddCuts(Plan& plan) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/80, plan.seed));
  if (!world::Chance(random, 0.4)) return;
  for (uint64_t n = 1 + world::Uniform(random, 6); n > 0; --n) {
    const uint64_t drawn = kCutsFrom + world::Uniform(random, kDisksFrom - kCutsFrom);
    plan.faults.push_back({.kind = Possible(static_cast<FaultKind>(drawn), plan),
                           .at = kFaultsWithin * world::UnitInterval(random)});
  }
}

// Faults of disks, and of all members of a segment at once.
void AddDiskFaults(Plan& plan) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/82, plan.seed));
  for (uint64_t n = 2 + world::Uniform(random, 6); n > 0; --n) {
    const auto drawn = static_cast<FaultKind>(kDisksFrom + world::Uniform(random, kAgesFrom - kDisksFrom));
    const FaultKind kind = world::Chance(random, 0.3) ? FaultKind::kDiskForgets : drawn;
    plan.faults.push_back({.kind = Possible(kind, plan), .at = kFaultsWithin * world::UnitInterval(random)});
  }
}

// Folders and stores that go back in time, in two seeds of seven.
void AddAges(Plan& plan) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/90, plan.seed));
  if (!world::Chance(random, 0.3)) return;
  for (uint64_t n = 1 + world::Uniform(random, 3); n > 0; --n) {
    const bool disk = plan.disks && world::Chance(random, 0.6);
    plan.faults.push_back({.kind = disk ? FaultKind::kDiskAged : FaultKind::kStoreAged,
                           .at = kFaultsWithin * world::UnitInterval(random)});
  }
}

// Wishes that come again too late, in two seeds of five that have replicas.
void AddLateAdds(Plan& plan) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/92, plan.seed));
  if (plan.replicas == 0 || !world::Chance(random, 0.4)) return;
  for (uint64_t n = 1 + world::Uniform(random, 2); n > 0; --n) {
    plan.faults.push_back({.kind = FaultKind::kAddLate, .at = kFaultsWithin * world::UnitInterval(random)});
  }
}

// In one seed of four shards come and go; a draw of its own, so that the others run as without it.
void DrawElastic(Plan& plan) {
  const uint64_t drawn = ring::Mix64(/*seed=*/94, plan.seed);
  if (drawn % 4 != 1) return;
  plan.elastic = 1 + static_cast<uint32_t>(drawn / 4 % 4);
  plan.late_shards = static_cast<uint32_t>(drawn / 16 % 3);
}

// In one seed of six segments move by load; likewise.
void DrawByLoad(Plan& plan) {
  plan.by_load = ring::Mix64(/*seed=*/96, plan.seed) % 6 == 1;
}

// In one seed of four without snapshots there is a table more, of ranges, and users reduce it; in half of
// these they lend it values; likewise.
void DrawReductions(Plan& plan) {
  plan.reduces = plan.snapshots == 0 && ring::Mix64(/*seed=*/98, plan.seed) % 4 == 1;
  plan.prioritised = ring::Mix64(/*seed=*/3200, plan.seed) % 5 == 4;  // a draw of its own, as for snapshots
  // Values of small slices are not shared by frames.
  const bool may_lend = plan.reduces && !plan.prioritised && !calm_wanted;
  plan.lends = may_lend && ring::Mix64(/*seed=*/125, plan.seed) % 2 == 1;
}

// In one seed of three clients use filters of the link; likewise.
void DrawLinkFilters(Plan& plan) {
  plan.filtered = ring::Mix64(/*seed=*/99, plan.seed) % 3 == 1;
}

}  // namespace

const char* NameOf(FaultKind kind) {
  static constexpr const char* kNames[kFaultKinds] = {"break",
                                                      "server_close",
                                                      "clog",
                                                      "shard_pause",
                                                      "coordinator_kill",
                                                      "coordinator_pause",
                                                      "store_fails",
                                                      "client_kill",
                                                      "client_pause",
                                                      "move",
                                                      "calls",
                                                      "shard_kill",
                                                      "partition",
                                                      "hand_over",
                                                      "shard_term",
                                                      "coordinator_term",
                                                      "one_way",
                                                      "coordinator_cut",
                                                      "to_coordinator",
                                                      "from_coordinator",
                                                      "swap_unanswered",
                                                      "clients_cut",
                                                      "members_kill",
                                                      "all_kill",
                                                      "disk_forgets",
                                                      "disk_full",
                                                      "disk_fails",
                                                      "sync_fails",
                                                      "disk_slow",
                                                      "disk_damaged",
                                                      "disk_aged",
                                                      "store_aged",
                                                      "add_late"};
  return kNames[static_cast<size_t>(kind)];
}

Plan Plan::WithoutFaults(uint64_t seed) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/77, seed));
  Plan plan;
  plan.seed = seed;
  plan.shards = 3 + static_cast<uint32_t>(world::Uniform(random, 2));
  plan.ring_bits = 2 + static_cast<int>(world::Uniform(random, 3));
  plan.replicas = kReplicas[ring::Mix64(/*seed=*/79, seed) % std::size(kReplicas)];
  plan.disks = ring::Mix64(/*seed=*/81, seed) % 3 == 0;
  plan.durable = plan.disks && (plan.replicas == 0 || ring::Mix64(/*seed=*/83, seed) % 3 != 0);
  plan.slews = ring::Mix64(/*seed=*/84, seed) % 3 == 0;
  plan.readers = 1 + static_cast<uint32_t>(world::Uniform(random, 2));
  plan.snapshots = DrawSnapshots(seed);
  plan.restores_first = plan.snapshots > 0 && ring::Mix64(/*seed=*/85, seed) % 2 == 0;
  for (uint32_t w = 0; w < plan.together; ++w) plan.workers.push_back(DrawWorker(random, BspChance(seed)));
  for (uint32_t w = 0; w < plan.together_aside; ++w) {
    plan.workers.push_back(DrawWorker(random, BspChance(seed)));
    plan.workers.back().aside = true;
  }
  plan.operations = 3 + static_cast<uint32_t>(world::Uniform(random, 6));
  return plan;
}

Plan Plan::Of(uint64_t seed) {
  Plan plan = WithoutFaults(seed);
  DrawElastic(plan);
  DrawByLoad(plan);
  world::SplitMix64 random(ring::Mix64(/*seed=*/78, seed));
  for (uint64_t late = world::Uniform(random, 3); late > 0; --late) {
    WorkerPlan& worker = plan.workers.emplace_back(DrawWorker(random, BspChance(seed)));
    worker.starts_at = absl::Milliseconds(200 + world::Uniform(random, 1200));
    if (world::Chance(random, 0.5)) worker.clocks = world::Uniform(random, 4);
  }
  plan.heirs = static_cast<uint32_t>(world::Uniform(random, 3));
  plan.deletes = world::Chance(random, 0.3);
  plan.workers[0].closes_unfinished = world::Chance(random, 0.1);
  plan.workers[1].dies_finishing = world::Chance(random, 0.2);
  // Mostly of a few kinds, so that each meets itself as well.
  std::vector<FaultKind> kinds;
  for (uint64_t n = 2 + world::Uniform(random, 5); n > 0; --n) {
    kinds.push_back(Possible(static_cast<FaultKind>(world::Uniform(random, kCutsFrom)), plan));
  }
  for (uint64_t n = 12 + world::Uniform(random, 20); n > 0; --n) {
    plan.faults.push_back({.kind = kinds[world::Uniform(random, kinds.size())],
                           .at = kFaultsWithin * world::UnitInterval(random)});
  }
  AddWork(plan);
  AddSubscribers(plan);
  AddBounds(plan);
  AddValueBounds(plan);
  AddPushFilters(plan);
  AddCuts(plan);
  if (plan.disks) AddDiskFaults(plan);
  AddAges(plan);
  AddLateAdds(plan);
  DrawReductions(plan);
  DrawLinkFilters(plan);
  plan.calm = calm_wanted;
  std::stable_sort(plan.faults.begin(), plan.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

}  // namespace paceline::sim
