#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Grows and shrinks the cluster while workers train: starts the shards that join late; drains others, one or
// two at a time, and cancels that, or takes them away once the coordinator says that they may go: process,
// memory and, mostly, disk. When they are forgotten it starts new ones under their names.
class Elastic {
 public:
  using Shards = std::vector<std::unique_ptr<SimShard>>;

  Elastic(World& world, SimCoordinator& coordinator, Shards& shards, uint32_t operations);

  // The shards from number `late` on have not been started.
  void Begin(size_t late);
  // Begins one operation more. False: another one is under way.
  bool Move();
  // It begins nothing any more, and cancels what it has begun.
  void Stop();
  bool done() const { return idle_ && (stopped_ || operations_ == 0); }
  std::string Describe() const { return "elastic: " + doing_; }

 private:
  void Next();
  void Ask(const v1::DrainShardsRequest& request,
           std::function<void(absl::StatusOr<v1::DrainShardsReply>)> done);
  // Asks once, with a number of its own, and again until there is an answer.
  void Drain(std::vector<SimShard*> shards, bool cancel);
  void Send(const v1::DrainShardsRequest& request, const std::vector<SimShard*>& shards);
  void NoteMeant(const v1::DrainShardsRequest& request, const absl::StatusOr<v1::StatusReply>& status);
  void OnAnswer(const v1::DrainShardsRequest& request, const absl::Status& status);
  void Repeat(const v1::DrainShardsRequest& request);
  void OnCancelled(const std::vector<SimShard*>& shards);
  void StartIfEmptied(SimShard& shard);
  void Remove(SimShard& shard);
  void OnDraining(const std::vector<SimShard*>& shards);
  // Asks the coordinator for its status, and calls `then` with it; asks again until it has one.
  void Look(std::function<void(const v1::StatusReply&)> then);
  void AwaitMayGo(const std::vector<SimShard*>& shards);
  void TakeAway(SimShard& shard);
  void AwaitForgotten(const std::vector<SimShard*>& shards);
  // Invariant Meant: shards drain, or do not, as was asked for last.
  void Check(const v1::StatusReply& status);
  void Ended();

  World& world_;
  SimCoordinator& coordinator_;
  Shards& shards_;
  Host host_{.name = "elastic"};
  uint32_t operations_;
  uint64_t requests_ = 0;
  // What was asked for last, and taken, by name.
  struct Told {
    bool drains = false;
    std::optional<uint32_t> shard = {};  // its number: as the request met it, or a status showed it
  };
  std::map<std::string, Told> told_;
  std::map<std::pair<uint64_t, std::string>, uint32_t> meant_;  // by a request's number and a name: the shard
  bool stopped_ = false;
  bool idle_ = true;
  std::string doing_ = "nothing yet";
};

}  // namespace paceline::sim
