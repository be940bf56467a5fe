#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/prober.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// What hand-overs of primaries cost a client, in virtual time and without faults: a cluster grows from three
// shards to six and shrinks again, while a client pulls from each segment every other millisecond.
class Pauses {
 public:
  struct Setup {
    uint64_t seed = 1;
    uint32_t replicas = 0;
    bool durable = false;  // shards have disks, and what is acknowledged is on them
  };
  // One hand-over, step by step. Infinite: the step was not seen.
  struct Swap {
    uint32_t segment = 0;
    uint64_t epoch = 0;                             // the new one
    absl::Time asked = absl::InfiniteFuture();      // the old primary wishes, and serves nobody from now on
    absl::Time committed = absl::InfiniteFuture();  // the coordinator has the new epoch
    absl::Time named = absl::InfiniteFuture();      // the new primary knows of it …
    absl::Time stepped_down = absl::InfiniteFuture();  // … and the old one …
    absl::Time told = absl::InfiniteFuture();          // … and the client
    absl::Time leased = absl::InfiniteFuture();        // the new primary may answer …
    absl::Time serves = absl::InfiniteFuture();        // … and all members hold what it began with
    bool linked = false;                               // the client had a stream to it when it was told
    std::map<std::string, int> refusals = {};          // answers to the client, by their reason
    absl::Duration longest = {};                       // pull of this segment that ended meanwhile
  };

  explicit Pauses(const Setup& setup);
  ~Pauses();

  // Grows and shrinks; all hand-overs of it, in order.
  std::vector<Swap> Run();
  // What went wrong; empty: nothing.
  const std::vector<Violation>& violations() const { return world_.verdict.violations(); }
  // How long each pull took that ended while segments moved.
  const std::vector<absl::Duration>& pulls() const { return pulls_; }
  // What the hand-overs waited for, for people.
  static std::string Describe(const std::vector<Swap>& swaps);

 private:
  void Step();
  void Look(uint32_t segment);
  SimShard& Of(uint32_t shard);
  bool Balanced(size_t shards) const;
  void Drain();

  const Setup setup_;
  World world_;
  SimCoordinator coordinator_;
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::unique_ptr<Prober> prober_;
  std::vector<uint32_t> primary_;  // by segment, as the store has it
  std::vector<Swap> open_;         // by segment; epoch 0: none
  std::vector<Swap> done_;
  std::vector<absl::Duration> pulls_;  // that ended while segments moved
  bool moving_ = false;
};

}  // namespace paceline::sim
