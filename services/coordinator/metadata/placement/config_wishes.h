#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/members/membership.h"

namespace paceline::coordinator {

// Facts about a member. Both functions accept any member, since members come from outside.
struct MemberFacts {
  std::function<bool(const v1::Member&)> current;  // it is the newest start of its shard
  std::function<bool(const v1::Member&)> alive;    // current, and heard of recently
  // It may have been told that it may go for good: no configuration may count on it.
  std::function<bool(const v1::Member&)> may_go = [](const v1::Member&) { return false; };
};

// The facts as the coordinator's list of shards has them; it must outlive them.
MemberFacts FactsOf(const Membership& membership);

// Whether `a` and `b` are one start of one shard.
bool Same(const v1::Member& a, const v1::Member& b);
// Whether `member` is among the replicas of `config`.
bool HasReplica(const v1::SegmentConfig& config, const v1::Member& member);
// Makes the next epoch of `config`, without the replica `member`. The primary waits for that replica until it
// learns of the new epoch, so the remaining members hold every acknowledged record.
void Remove(v1::SegmentConfig& config, const v1::Member& member);

// Makes the next epoch of `config` without `member`, which is sound, as the plan wants it: once others have
// its copy. kFailedPrecondition unless it is a replica, and `replicas` others that live are; so no plan takes
// the last copy, nor one that is wanted. As Remove.
absl::Status DropAsPlanned(v1::SegmentConfig& config, const v1::Member& member, uint32_t replicas,
                           const MemberFacts& facts);

// The configuration that replaces `config` if the wish of `from` is granted: DROP, ADD, SWAP or KEEP by its
// primary. kFailedPrecondition, with a text for people, if it cannot be granted. Pure; O(members).
//
// Only members of exactly this configuration may wish: a member that knows another one has missed an epoch,
// and learns of it from the answer.
absl::StatusOr<v1::SegmentConfig> Granted(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                                          const v1::Member& from, const MemberFacts& facts);

// OK if a PROMOTE by `from` should be followed.
absl::Status CheckPromote(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                          const v1::Member& from);

}  // namespace paceline::coordinator
