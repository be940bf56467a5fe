#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Calm: where no fault is at work, and none was of late, nothing is repaired. No member is asked out or
// replaced, no request is refused that could be served, no client is given up, and whoever asks is answered
// in time. So a mistake is found whose consequences are mended as those of faults are.
class Calm {
 public:
  // After a fault a lease of several seconds may have to run out.
  static constexpr absl::Duration kSettled = absl::Seconds(4);

  // `judges` false: nothing is a violation. `last_fault` returns when the last fault's effect is over.
  Calm(World& world, bool judges, std::function<absl::Time()> last_fault)
      : world_(world), judges_(judges), last_fault_(std::move(last_fault)) {}

  bool calm() const { return world_.Now() > last_fault_() + kSettled && world_.Now() > excused_until_; }
  // Something begins, or is over, that calls for repairs.
  void Excuse() { excused_until_ = absl::InfiniteFuture(); }
  void Resume() { excused_until_ = world_.Now(); }

  // -- what happens --
  void OnWish(const std::string& shard, const v1::ConfigWish& wish);
  // Another configuration: clients go to where a segment was.
  void OnMap() { moved_ = world_.Now(); }
  void OnRefusal(const v1::Refusal& refusal, SessionId session);
  // `lives`: its client is up.
  void OnEvicted(SessionId session, bool lives);
  // A client's request has taken so long.
  // `durable`: acknowledgements wait for disks.
  void Took(const std::string& who, const std::string& what, absl::Duration took, bool durable);

 private:
  void Violated(const std::string& what);

  World& world_;
  const bool judges_;
  const std::function<absl::Time()> last_fault_;
  absl::Time excused_until_ = absl::InfinitePast();
  absl::Time moved_ = absl::InfinitePast();  // or began to
};

}  // namespace paceline::sim
