#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/placement/drains.h"
#include "services/coordinator/metadata/placement/moves.h"
#include "services/coordinator/metadata/placement/wanted_shards.h"

namespace paceline::coordinator {

// The number N of the pod `pod`, NAME-N of the StatefulSet `name`; nullopt: it is none of its pods.
std::optional<uint32_t> OrdinalOf(absl::string_view pod, absl::string_view name);

// What becomes of a shard whose pod is to stop.
//
// A pod that is stopped comes back, with its folder, unless its StatefulSet has become smaller: then those
// with the highest ordinals go for good. A pod does not know which of the two it is, so its pre-stop hook
// asks here. If its ordinal is no smaller than the number of shards wanted, all shards of which that is true
// drain, as one set: none of them takes what another one gives. Otherwise nothing moves, and the hook hands
// over; nor is a copy made for a while in place of one that is about to come back. If the number cannot be
// read, or the others have no room, the answer is to hand over too, and says why.
//
// A shard that drains for this reason and is wanted again (the StatefulSet has grown meanwhile) stops
// draining; one whose pod has asked here, and so ends in any case, only once its next pod has started. Drains
// that people asked for are left alone.
class Stops {
 public:
  // How often the number is read while shards drain because of it.
  static constexpr absl::Duration kLookAgain = absl::Seconds(5);
  // How long an answer that a shard cannot drain is a problem.
  static constexpr absl::Duration kProblemLasts = absl::Minutes(10);

  Stops(Context& context, Waiters& waiters, Drains& drains, Moves& moves)
      : context_(context), waiters_(waiters), drains_(drains), moves_(moves) {}

  // kNotFound: there is no such shard.
  absl::StatusOr<Ticket> Stop(const v1::StopShardRequest& request, absl::Time deadline,
                              const Done<v1::StopShardReply>& done);
  void OnTime();
  // What kept shards that stopped lately from draining, which of them stopped before they were empty, and
  // which drains nobody would end, one sentence each.
  std::vector<std::string> Problems() const;

 private:
  // The answer for the shard of that name, if so many are wanted; lets what is to drain drain.
  v1::StopShardReply Decide(const std::string& shard, const absl::StatusOr<uint32_t>& wanted);
  static v1::StopShardReply HandOver(const std::string& why);
  v1::StopShardReply CannotDrain(const std::string& why);
  // Those with ordinals from `wanted` on.
  std::set<std::string> Beyond(uint32_t wanted) const;
  void OnWanted(const absl::StatusOr<uint32_t>& wanted);
  // The shard drains as it is not wanted, by its record.
  bool DrainsAlready(const std::string& shard) const;
  // The answer to a shard that drains; notes that its pod ends.
  v1::StopShardReply LetItDrain(const std::string& shard, const std::string& why);
  // This start of the shard has asked: its pod ends.
  bool PodStops(uint32_t shard) const;

  Context& context_;
  Waiters& waiters_;
  Drains& drains_;
  Moves& moves_;
  std::string problem_;  // why a shard that stopped was not drained
  absl::Time problem_since_;
  // The starts whose pods stop while they drain: shard → incarnation. Soft state: after a change of
  // coordinators such a drain may end early, and the pod hands over.
  std::map<uint32_t, uint64_t> stopping_;
  bool reading_ = false;
  std::string not_read_;  // why the number could not be read at the last look; empty: it was
  absl::Time next_look_ = absl::InfinitePast();
};

}  // namespace paceline::coordinator
