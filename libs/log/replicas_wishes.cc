// Which followers are asked out, and which learners are asked to be added.
#include <algorithm>
#include <utility>

#include "libs/base/planted.h"
#include "libs/log/replicas.h"
#include "libs/wire/map_codec.h"

namespace paceline::log {
namespace {

constexpr absl::Duration kWishEvery = absl::Milliseconds(150);
// A learner that is silent for this long is forgotten.
constexpr absl::Duration kLearnerSilent = absl::Seconds(5);

}  // namespace

bool Replicas::Failing(const Follower& follower, absl::Time now) const {
  const absl::Time heard = std::max(follower.since, follower.lent.last());
  const bool silent = now > heard + SilenceBorne(lease_.length(), follower.broke);
  // If this shard's own disk does not work, the others' disks are not the cause; one of them may go on alone.
  const bool holds_up = now > follower.stuck_since + HoldsUpMax() ||
                        (durable_ && follower.disk == v1::ReplicateReply::DISK_STALLS);
  return silent || (holds_up && !OwnDiskFails()) || follower.state == State::kDisagrees;
}

bool Replicas::KnowsItIsAwaited(const Follower& follower) {
  return follower.state == State::kStreaming || Planted(Bug::kPagesNotAwaited);
}

void Replicas::CheckFollowers(absl::Time now) {
  std::erase_if(followers_, [&](const auto& follower) {
    return follower->kind == Kind::kLearner &&
           now > std::max(follower->since, follower->lent.last()) + kLearnerSilent;
  });
  if (now < next_wish_) return;
  std::vector<ring::Member> drop;
  std::vector<ring::Member> add;
  bool keep = false;
  for (const auto& follower : followers_) {
    const bool early =
        Planted(Bug::kAddedBeforeAwaited) && !Waited(*follower) && follower->state != State::kDown;
    if (early) add.push_back(follower->member);
    // A recovery that came to nothing, since this primary lives, has had it promise to wait for the next
    // epoch. If there is one already, the store refuses the wish.
    if (follower->kind == Kind::kLearner && follower->fenced) keep = true;
    if (!Waited(*follower)) continue;
    if (Failing(*follower, now)) {
      if (follower->kind == Kind::kReplica) drop.push_back(follower->member);
      // It may have been added without this primary's knowledge, so only a new epoch without it ends the
      // wait.
      if (follower->kind == Kind::kAwaited) keep = follower->leaving = true;
    } else if (follower->kind == Kind::kAwaited && KnowsItIsAwaited(*follower) &&
               HeldBy(*follower) >= follower->awaited_from && DiskCounts(*follower) &&
               now < follower->lent.until()) {
      add.push_back(follower->member);
    }
  }
  if (!drop.empty()) {
    Wish(v1::ConfigWish::DROP, drop);
  } else if (keep) {
    Wish(v1::ConfigWish::KEEP, {});
  } else if (!add.empty()) {
    Wish(v1::ConfigWish::ADD, add);
  }
}

void Replicas::Wish(v1::ConfigWish::Kind kind, const std::vector<ring::Member>& members) {
  next_wish_ = clock_->Now() + kWishEvery;
  v1::ConfigWish wish;
  wish.set_segment(segment_.v);
  wish.set_epoch(epoch_.v);
  wish.set_kind(kind);
  for (const ring::Member& member : members) *wish.add_members() = wire::ToProto(member);
  port_->Wish(std::move(wish));
}

}  // namespace paceline::log
