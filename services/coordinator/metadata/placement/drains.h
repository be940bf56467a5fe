#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/moves.h"

namespace paceline::coordinator {

// Empties shards for good: whatever they hold moves to others.
//
// That a shard drains is stored with it (ShardRecord), for all its starts and all coordinators. All shards
// that drain are one set: the plan moves what they hold to the others, and gives them nothing
// (ring/planner.h). A shard of which no configuration has a member any more, and to which nothing is being
// copied, marks its folder as emptied, and may go. Once it is silent it is forgotten: its name may come back
// as a new shard. It may drain before it ends, or after: what is held by a shard that does not live waits for
// it, or for `paceline recover`, as without a drain.
class Drains {
 public:
  Drains(Context& context, Membership& membership, Moves& moves)
      : context_(context), membership_(membership), moves_(moves) {}

  // Stores that all these shards drain, or do not; naming one that does already changes nothing. kNotFound:
  // one does not exist. kFailedPrecondition, with the numbers: the shards that remain could not hold all
  // copies, or all rows. Then none of them does.
  //
  // Requests may arrive late and twice, also after their opposite. They count in the order of their numbers,
  // which are stored with what they change: kAborted if one of this number or a later one was taken. One that
  // was taken itself, by its nonce, changes nothing when it comes again, and is told how far that drain is.
  // `unwanted`: they drain because no more so many are wanted (Stops). A drain of such a shard that is not is
  // a person's from then on.
  absl::StatusOr<v1::DrainShardsReply> Drain(const v1::DrainShardsRequest& request, bool unwanted = false);
  // A shard that drains because it is not wanted lives.
  bool AnyUnwantedLives() const;
  bool Lives(uint32_t shard) const { return membership_.Alive(shard); }

  // Has shards mark their folders, and forgets those that have gone. Call after a change of the map, and with
  // every beat and tick. True: a map was committed.
  bool Pump();

  // nullopt: the shard does not drain.
  std::optional<v1::DrainStatus> StatusOf(uint32_t shard) const;
  // How many drain.
  size_t size() const;
  // What they wait for, one sentence each.
  std::vector<std::string> Problems() const;

 private:
  // Of shards that have gone it says that they may.
  v1::DrainShardsReply ReplyOf(const v1::DrainShardsRequest& request) const;
  absl::Status CheckNumber(const v1::DrainShardsRequest& request) const;
  absl::StatusOr<std::set<uint32_t>> Named(const v1::DrainShardsRequest& request) const;
  // OK if what `draining` hold finds room on the others.
  absl::Status CheckRoom(const std::set<uint32_t>& draining) const;
  // Why it cannot go on at present; empty: it can.
  std::string WaitsFor(uint32_t shard, const std::set<uint32_t>& segments) const;
  // It lives, and can keep segments.
  bool Takes(uint32_t shard) const;
  // No configuration names it, and none will.
  bool HasNothing(uint32_t shard) const;

  Context& context_;
  Membership& membership_;
  Moves& moves_;
  absl::Time next_emptying_ = absl::InfinitePast();
};

}  // namespace paceline::coordinator
