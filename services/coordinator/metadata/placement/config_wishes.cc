#include "services/coordinator/metadata/placement/config_wishes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

absl::Status Refused(std::string why) {
  return absl::FailedPreconditionError(std::move(why));
}

std::string Text(const v1::Member& member) {
  return absl::StrCat("shard ", member.shard(), " (incarnation ", member.incarnation(), ")");
}

bool HasShard(const v1::SegmentConfig& config, uint32_t shard) {
  return config.primary().shard() == shard ||
         std::ranges::any_of(config.replicas(), [shard](const auto& r) { return r.shard() == shard; });
}

absl::Status CheckEpoch(const v1::SegmentConfig& config, const v1::ConfigWish& wish) {
  if (wish.epoch() == config.epoch()) return absl::OkStatus();
  if (wish.epoch() < config.epoch() && Planted(Bug::kStaleWishGranted)) return absl::OkStatus();
  return Refused(absl::StrCat("the wish is to replace epoch ", wish.epoch(), ", the segment is in epoch ",
                              config.epoch()));
}

absl::Status CheckMembers(const v1::ConfigWish& wish, bool wanted) {
  if (wish.members().empty() != wanted) return absl::OkStatus();
  return Refused(absl::StrCat(v1::ConfigWish::Kind_Name(wish.kind()), " names ", wish.members_size(),
                              " members; expected ", wanted ? "at least one" : "none"));
}

absl::Status Drop(const v1::ConfigWish& wish, v1::SegmentConfig& next) {
  for (const v1::Member& member : wish.members()) {
    auto& replicas = *next.mutable_replicas();
    const auto it = std::ranges::find_if(replicas, [&](const auto& r) { return Same(r, member); });
    if (it == replicas.end()) return Refused(absl::StrCat(Text(member), " is not a replica of the segment"));
    replicas.erase(it);
  }
  return absl::OkStatus();
}

absl::Status Add(const v1::ConfigWish& wish, const MemberFacts& facts, v1::SegmentConfig& next) {
  for (const v1::Member& member : wish.members()) {
    if (HasShard(next, member.shard())) {
      return Refused(absl::StrCat("shard ", member.shard(),
                                  " is in the configuration already; expected members on distinct shards"));
    }
    if (!facts.alive(member)) return Refused(absl::StrCat(Text(member), " is not alive"));
    if (facts.may_go(member)) return Refused(absl::StrCat(Text(member), " has drained, and may go"));
    *next.add_replicas() = member;
  }
  return absl::OkStatus();
}

absl::Status Swap(const v1::ConfigWish& wish, const MemberFacts& facts, v1::SegmentConfig& next) {
  const v1::Member to = wish.members(0);
  for (v1::Member& replica : *next.mutable_replicas()) {
    if (!Same(replica, to)) continue;
    if (!facts.current(to)) return Refused(absl::StrCat(Text(to), " was started again since"));
    replica.Swap(next.mutable_primary());
    return absl::OkStatus();
  }
  return Refused(absl::StrCat(Text(to), " is not a replica of the segment: it may lack records"));
}

absl::Status Grant(const v1::ConfigWish& wish, const MemberFacts& facts, v1::SegmentConfig& next) {
  switch (wish.kind()) {
    case v1::ConfigWish::DROP:
      ABSL_RETURN_IF_ERROR(CheckMembers(wish, true));
      return Drop(wish, next);
    case v1::ConfigWish::ADD:
      ABSL_RETURN_IF_ERROR(CheckMembers(wish, true));
      return Add(wish, facts, next);
    case v1::ConfigWish::SWAP:
      ABSL_RETURN_IF_ERROR(CheckMembers(wish, true));
      return Swap(wish, facts, next);
    case v1::ConfigWish::KEEP:
      return CheckMembers(wish, false);
    default:
      return Refused(absl::StrCat("kind: ", wish.kind(), " is not known to this release"));
  }
}

}  // namespace

MemberFacts FactsOf(const Membership& membership) {
  return {.current = [&](const v1::Member& member) { return membership.Current(member); },
          .alive = [&](const v1::Member& member) { return membership.Alive(member); },
          .may_go = [&](const v1::Member& member) { return membership.MayGo(member.shard()); }};
}

bool Same(const v1::Member& a, const v1::Member& b) {
  return a.shard() == b.shard() && a.incarnation() == b.incarnation();
}

bool HasReplica(const v1::SegmentConfig& config, const v1::Member& member) {
  return std::ranges::any_of(config.replicas(), [&](const auto& replica) { return Same(replica, member); });
}

void Remove(v1::SegmentConfig& config, const v1::Member& member) {
  auto& replicas = *config.mutable_replicas();
  replicas.erase(std::remove_if(replicas.begin(), replicas.end(),
                                [&member](const auto& replica) { return Same(replica, member); }),
                 replicas.end());
  config.set_epoch(config.epoch() + 1);
}

absl::Status DropAsPlanned(v1::SegmentConfig& config, const v1::Member& member, uint32_t replicas,
                           const MemberFacts& facts) {
  const bool early = !config.replicas().empty() && Planted(Bug::kDroppedBeforeSwap);
  if (Same(config.primary(), member) && early) config.mutable_primary()->Swap(config.mutable_replicas(0));
  if (Same(config.primary(), member)) {
    return Refused(absl::StrCat(Text(member), " is the primary of the segment: it has to hand over first"));
  }
  if (!HasReplica(config, member)) {
    return Refused(absl::StrCat(Text(member), " is not a replica of the segment"));
  }
  const auto others = std::ranges::count_if(
      config.replicas(), [&](const auto& other) { return !Same(other, member) && facts.alive(other); });
  if (others < static_cast<int64_t>(replicas)) {
    return Refused(absl::StrCat(others, " replicas beside ", Text(member), " live; expected ", replicas));
  }
  if (!facts.alive(config.primary())) return Refused(absl::StrCat(Text(config.primary()), " is not alive"));
  Remove(config, member);
  return absl::OkStatus();
}

absl::StatusOr<v1::SegmentConfig> Granted(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                                          const v1::Member& from, const MemberFacts& facts) {
  ABSL_RETURN_IF_ERROR(CheckEpoch(config, wish));
  if (!Same(config.primary(), from)) {
    return Refused(
        absl::StrCat(Text(from), " is not the primary of the segment; ", Text(config.primary()), " is"));
  }
  v1::SegmentConfig next = config;
  next.set_epoch(config.epoch() + 1);
  ABSL_RETURN_IF_ERROR(Grant(wish, facts, next));
  return next;
}

absl::Status CheckPromote(const v1::SegmentConfig& config, const v1::ConfigWish& wish,
                          const v1::Member& from) {
  ABSL_RETURN_IF_ERROR(CheckEpoch(config, wish));
  ABSL_RETURN_IF_ERROR(CheckMembers(wish, false));
  if (HasReplica(config, from)) return absl::OkStatus();
  return Refused(absl::StrCat(Text(from), " is not a replica of the segment: it may lack records"));
}

}  // namespace paceline::coordinator
