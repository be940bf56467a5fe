#pragma once

#include <map>
#include <string>
#include <utility>

#include "libs/log/primary.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/truth.h"
#include "tests/sim/verdict.h"

namespace paceline::sim {

// Prompt: what can be done is done at once. Whatever a primary could acknowledge, answer, count or log by
// what it knows, it has acknowledged, answered, counted and logged by the end of the step. So a mistake is
// found that loses nothing, but waits for another frame, the next visit or a retry.
//
// It knows the state of primaries between two steps, and computes anew what should have followed from it.
class Promptness {
 public:
  explicit Promptness(Verdict& verdict) : verdict_(verdict) {}

  // Between two steps: every primary of a shard that is up. `map` is the newest in the store; `durable`: a
  // record is held once it is on the disk.
  void Look(SimShard& shard, const v1::Map& map, bool durable, absl::Time now);

 private:
  void Violated(const std::string& what) const;
  // Ticks whose parts are here count; the min clock is that of the slowest worker.
  void Clocks(const log::Primary& primary) const;
  // Marks of committed records are told.
  void Acknowledged(const log::Primary& primary) const;
  // Reads whose bound is reached are answered.
  void Answered(log::Primary& primary) const;
  // The min clocks of committed records are shown.
  void Shown(log::Primary& primary) const;
  // What every member holds is committed.
  void Committed(SimShard& shard, log::Primary& primary, const v1::Map& map, bool durable) const;
  // What is staged is of clocks that are still to be folded.
  void Staged(SimShard& shard) const;
  // A hand-over that gets no further is given up.
  void HandedOver(SimShard& shard, const log::Primary& primary, absl::Time now);

  Verdict& verdict_;
  std::string where_;  // the primary that is looked at
  struct HandOver {
    Epoch epoch;
    uint64_t begun = 0;  // so many, with this one, since the shard started
    absl::Time since;
  };
  std::map<std::pair<std::string, SegmentId>, HandOver> hand_overs_;
};

}  // namespace paceline::sim
