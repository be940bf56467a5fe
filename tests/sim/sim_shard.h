#pragma once

#include <memory>
#include <string>

#include "services/shard/shard.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A shard's process: the real shard, and beside it what keeps its place in the cluster.
class SimShard final : private shard::Probe {
 public:
  SimShard(World& world, SimCoordinator& coordinator, uint32_t index);

  // Joins the cluster and goes on beating.
  void Start();

  shard::Shard& shard() { return shard_; }
  Host& host() { return host_; }
  const ring::Member& self() const { return self_; }
  const std::string& address() const { return address_; }
  // A push frame was handled: whatever counts now is checked.
  void OnPushHandled();
  // Visits the segments this shard is primary of.
  void ForEachPrimary(const std::function<void(log::Primary&)>& visit);

 private:
  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override;
  void Join();
  void Beat();
  void FetchCatalogue();
  void OnTime();

  World& world_;
  SimCoordinator& coordinator_;
  const std::string address_;
  Host host_;
  ring::Member self_;
  uint64_t nonce_;
  shard::Shard shard_;
};

// What every shard of a simulated cluster is started with: little, so that bounds are met.
shard::ShardOptions OptionsOf(uint32_t index);

}  // namespace paceline::sim
