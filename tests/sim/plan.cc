#include "tests/sim/plan.h"

#include <algorithm>

#include "libs/ring/hash.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kFaultsWithin = absl::Milliseconds(1800);

WorkerPlan DrawWorker(world::Random& random) {
  WorkerPlan worker;
  const uint64_t drawn = world::Uniform(random, 5);
  if (drawn < 4) worker.staleness = drawn == 3 ? 5 : drawn;
  worker.think = absl::Milliseconds(2 + world::Uniform(random, 25));
  return worker;
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
                                                      "calls"};
  return kNames[static_cast<size_t>(kind)];
}

Plan Plan::WithoutFaults(uint64_t seed) {
  world::SplitMix64 random(ring::Mix64(/*seed=*/77, seed));
  Plan plan;
  plan.seed = seed;
  plan.shards = 3 + static_cast<uint32_t>(world::Uniform(random, 2));
  plan.ring_bits = 2 + static_cast<int>(world::Uniform(random, 3));
  plan.readers = 1 + static_cast<uint32_t>(world::Uniform(random, 2));
  for (uint32_t w = 0; w < plan.together; ++w) plan.workers.push_back(DrawWorker(random));
  return plan;
}

Plan Plan::Of(uint64_t seed) {
  Plan plan = WithoutFaults(seed);
  world::SplitMix64 random(ring::Mix64(/*seed=*/78, seed));
  for (uint64_t late = world::Uniform(random, 3); late > 0; --late) {
    WorkerPlan& worker = plan.workers.emplace_back(DrawWorker(random));
    worker.starts_at = absl::Milliseconds(200 + world::Uniform(random, 1200));
    if (world::Chance(random, 0.5)) worker.clocks = world::Uniform(random, 4);
  }
  plan.workers[0].closes_unfinished = world::Chance(random, 0.1);
  plan.workers[1].dies_finishing = world::Chance(random, 0.2);
  // Mostly of a few kinds, so that each meets itself as well.
  std::vector<FaultKind> kinds;
  for (uint64_t n = 2 + world::Uniform(random, 5); n > 0; --n) {
    kinds.push_back(static_cast<FaultKind>(world::Uniform(random, kFaultKinds)));
  }
  for (uint64_t n = 12 + world::Uniform(random, 20); n > 0; --n) {
    plan.faults.push_back({.kind = kinds[world::Uniform(random, kinds.size())],
                           .at = kFaultsWithin * world::UnitInterval(random)});
  }
  std::stable_sort(plan.faults.begin(), plan.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

}  // namespace paceline::sim
