#pragma once

#include <optional>

#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/ring/segment_map.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::log {

// The way of a primary's planned hand-over to a replica: it refuses parts for a moment, until the replica
// holds every record; then it asks for the configuration in which the replica is primary, and never
// answers again in this epoch. Decides what comes next; the primary does it. Single owner, no locks; time is
// passed in.
class HandOver {
 public:
  // How long it may take to begin, and how long the primary waits for an answer to its wish.
  static constexpr absl::Duration kMax = absl::Milliseconds(500);

  // Begins a hand-over to `to`. False: one is under way.
  bool Begin(const ring::Member& to, absl::Time now);
  // True if an heir, who serves better than this primary, may be given its place now. If that fails, parts
  // get their turn before another attempt.
  bool MayBeginUnfit(absl::Time now) const { return !under_way() && now >= next_heir_; }
  void PauseUnfit(absl::Time now) { next_heir_ = now + 2 * kMax; }
  // It has failed, or another epoch has begun.
  void End();

  bool under_way() const { return to_.has_value(); }
  // The member that is to be primary. REQUIRES: under_way().
  const ring::Member& to() const { return *to_; }
  // True if the new configuration was asked for: another member may be primary.
  bool asked() const { return asked_.has_value(); }

  enum class Step {
    kWait,
    kGiveUp,   // the replica does not catch up
    kAsk,      // for the new configuration, with Wish
    kAskBack,  // for one in which this shard stays primary, with Wish
  };
  // The primary's next step. `ready`: the replica has every record, and all answers that may go out have
  // gone.
  Step Next(absl::Time now, bool ready) const;
  // The wish of kAsk or kAskBack, which the primary sends at once. It is unknown whether an earlier one was
  // granted: the store lets one of the two through.
  v1::ConfigWish Wish(Step step, SegmentId segment, Epoch epoch, absl::Time now);

 private:
  std::optional<ring::Member> to_;
  absl::Time since_;
  absl::Time next_heir_ = absl::InfinitePast();
  std::optional<absl::Time> asked_;  // the last wish
};

}  // namespace paceline::log
