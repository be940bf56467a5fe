// The faults of wishes for other configurations on their way to the coordinator.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

// A primary asks out a replica that holds it up for a second.
constexpr absl::Duration kAddCut = absl::Milliseconds(2500);

}  // namespace

bool Cluster::LoseNextSwap() {
  ++swaps_to_lose_;
  return HandOver();
}

// The old primary hears of the new epoch last.
void Cluster::OnWish(const SimShard& from, const v1::ConfigWish& wish) {
  if (wish.kind() != v1::ConfigWish::SWAP || swaps_to_lose_ == 0) return;
  --swaps_to_lose_;
  const std::string& coordinator = coordinator_.host().name;
  const absl::Duration lasts = world_.Between(absl::Milliseconds(600), absl::Seconds(2));
  for (const auto& shard : shards_) {
    if (shard.get() != &from && shard->self().shard != ShardId(wish.members(0).shard())) continue;
    const absl::Time until = world_.Now() + (shard.get() == &from ? lasts : lasts / 2);
    world_.partitions.Add({Partitions::Way(coordinator, shard->host().name)}, until,
                          [this] { Count(FaultKind::kSwapUnanswered); });
  }
  last_fault_ = std::max(last_fault_, world_.Now() + lasts);
}

void Cluster::RepeatLate(SimShard& from, const v1::ChangeConfigsRequest& request,
                         const v1::ConfigWish& wish) {
  if (wish.kind() == v1::ConfigWish::ADD && adds_to_repeat_ > 0 && !kept_add_.has_value()) {
    --adds_to_repeat_;
    kept_add_ = request;
    kept_add_->mutable_wishes()->Clear();
    *kept_add_->add_wishes() = wish;
    const absl::Time until = world_.Now() + kAddCut;
    for (const auto& shard : shards_) {
      if (shard->self().shard != ShardId(wish.members(0).shard())) continue;
      world_.partitions.Add({Partitions::Way(shard->host().name, from.host().name)}, until, nullptr);
    }
    world_.scheduler.After(kAddCut, [this] { kept_add_.reset(); });
    last_fault_ = std::max(last_fault_, until);
  }
  if (wish.kind() != v1::ConfigWish::DROP || !kept_add_.has_value()) return;
  const v1::ConfigWish& kept = kept_add_->wishes(0);
  const bool same = kept.segment() == wish.segment() && kept_add_->from().shard() == from.self().shard.v &&
                    std::ranges::any_of(wish.members(), [&](const v1::Member& member) {
                      return member.shard() == kept.members(0).shard();
                    });
  if (!same) return;
  world_.scheduler.After(world_.Between(absl::Milliseconds(50), absl::Milliseconds(400)),
                         [this, late = *kept_add_] { DeliverLate(late); });
}

// It counts if it would undo a later decision.
void Cluster::DeliverLate(const v1::ChangeConfigsRequest& request) {
  const v1::ConfigWish& wish = request.wishes(0);
  if (coordinator_.core() == nullptr || coordinator_.aged() || coordinator_.host().Paused(world_.Now()))
    return;
  const v1::SegmentConfig& config = coordinator_.map().segments(static_cast<int>(wish.segment()));
  const bool asked_out = config.epoch() > wish.epoch() &&
                         config.primary().shard() == request.from().shard() &&
                         std::ranges::none_of(config.replicas(), [&](const v1::Member& replica) {
                           return replica.shard() == wish.members(0).shard();
                         });
  if (asked_out) Count(FaultKind::kAddLate);
  coordinator_.Visit([&](auto& core) { (void)core.ChangeConfigs(request); });
}

}  // namespace paceline::sim
