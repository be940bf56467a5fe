#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::coordinator {

// Answers what is known of a member. Total: members come from outside.
struct MemberFacts {
  std::function<bool(const v1::Member&)> current;  // it is the newest start of its shard
  std::function<bool(const v1::Member&)> alive;    // current, and heard of recently
};

// Whether `a` and `b` are one start of one shard.
bool Same(const v1::Member& a, const v1::Member& b);
// Whether `member` is among the replicas of `config`.
bool HasReplica(const v1::SegmentConfig& config, const v1::Member& member);
// Makes the next epoch of `config`, without `member` among its replicas. Its primary waits for it until it
// hears of that epoch, so nothing that is acknowledged is missing in what remains.
void Remove(v1::SegmentConfig& config, const v1::Member& member);

// The configuration that `from` wishes for in place of `config`: DROP, ADD, SWAP and KEEP of its primary.
// kFailedPrecondition, in words for people, if it cannot be granted. Pure; O(members).
//
// Only members of exactly this configuration are listened to: whoever knows another one has missed something,
// and learns from the answer what.
absl::StatusOr<v1::SegmentConfig> Granted(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                                          const v1::Member& from, const MemberFacts& facts);

// OK if a PROMOTE of `from` is to be followed.
absl::Status CheckPromote(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                          const v1::Member& from);

}  // namespace paceline::coordinator
