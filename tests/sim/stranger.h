#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/wire/replicate_frame.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A stranger: it reaches every address and belongs to no cluster. It claims to be primary of later epochs,
// and pushes under the next numbers of sessions whose secrets it does not know. It knows the map, the
// sessions and their numbers, which must not help it. It draws from a random stream of its own, and its
// frames take no time.
class Stranger {
 public:
  Stranger(World& world, const std::vector<std::unique_ptr<SimShard>>& shards, uint64_t seed);

  // Acts now and then from now on, until the run ends.
  void Begin();

 private:
  void Next();
  // A shard that handles frames now; nullptr: the shard that was drawn does not.
  SimShard* AnyShard();
  void SayToBePrimary(SimShard& shard);
  void PushForAnother(SimShard& shard);
  wire::ReplicateFrame Claims(const shard::View& view);
  uint64_t Below(uint64_t n) { return world::Uniform(random_, n); }

  World& world_;
  const std::vector<std::unique_ptr<SimShard>>& shards_;
  world::SplitMix64 random_;
};

}  // namespace paceline::sim
