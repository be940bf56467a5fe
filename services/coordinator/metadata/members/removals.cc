// Removes shards from the cluster.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

constexpr int kForgottenNoncesMax = 64;

void NoteForgotten(const ShardRecord& shard, CountersRecord& counters) {
  auto& nonces = *counters.mutable_forgotten_nonces();
  nonces.MergeFrom(shard.past_nonces());
  nonces.Add(shard.nonce());
  nonces.erase(nonces.begin(), nonces.begin() + std::max(nonces.size() - kForgottenNoncesMax, 0));
}

}  // namespace

absl::StatusOr<v1::RemoveShardReply> Membership::Remove(const v1::RemoveShardRequest& request) {
  const ShardRecord* known = context_.facts.FindShard(request.shard());
  if (known == nullptr) {
    return absl::NotFoundError(absl::StrCat("shard '", request.shard(),
                                            "' is not of this cluster; `paceline shard "
                                            "list` shows those that are"));
  }
  const uint32_t shard = known->info().shard();
  if (context_.facts.map() == nullptr) {
    return absl::FailedPreconditionError("the cluster has no map yet: shards can be removed once it has");
  }
  if (const std::set<uint32_t> held = SegmentsOf(*context_.facts.map(), shard); !held.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        request.shard(), " is a member of segments ", Ranges(held),
        ": it can be removed once others have them. `paceline drain` moves what a shard has that lives; of "
        "one that has ended for good see `paceline recover`"));
  }
  ABSL_RETURN_IF_ERROR(CheckMayGiveIds());  // a store that is behind may not know the shard's segments
  const bool emptied = HasEmptied(shard);
  if (Alive(shard) && !emptied) {
    EmptyFolderOf(*known);
    return absl::AbortedError(absl::StrCat(request.shard(), " marks its folder as emptied; ask again"));
  }
  ABSL_RETURN_IF_ERROR(Forget(shard));
  v1::RemoveShardReply reply;
  reply.set_emptied(emptied);
  return reply;
}

void Membership::EmptyFolderOf(const ShardRecord& known) {
  ++soft_[known.info().shard()].emptying;
  v1::EmptyFolderRequest request;
  request.set_cluster(context_.facts.cluster());
  request.mutable_target()->set_shard(known.info().shard());
  request.mutable_target()->set_incarnation(known.info().incarnation());
  request.set_map_version(context_.facts.map_version());
  CallShard(context_, known.info(), &ShardCaller::EmptyFolder, std::move(request),
            [this, shard = known.info().shard(),
             nonce = known.nonce()](const absl::StatusOr<v1::EmptyFolderReply>& reply) {
              const ShardRecord* now = context_.facts.FindShard(shard);
              if (now == nullptr || now->nonce() != nonce) return;
              Soft& soft = soft_[shard];
              --soft.emptying;
              soft.emptied |= reply.ok();
              if (absl::IsFailedPrecondition(reply.status()))
                soft.why_not_emptied = std::string(reply.status().message());
            });
}

bool Membership::Emptied(uint32_t shard) const {
  const v1::BeatRequest* last = LastBeat(shard);
  return HasEmptied(shard) || (last != nullptr && last->emptied());
}

bool Membership::MayGo(uint32_t shard) const {
  if (Emptied(shard)) return true;
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr || !known->draining()) return false;
  const auto soft = soft_.find(shard);
  // It refuses the call if it is sent a copy. Then it is added, if that was wished for, and drains again.
  const bool emptying = soft != soft_.end() && soft->second.emptying > 0;
  return emptying || LastBeat(shard) == nullptr;
}

std::string Membership::WhyNotEmptied(uint32_t shard) const {
  const auto soft = soft_.find(shard);
  return soft == soft_.end() || soft->second.emptied ? "" : soft->second.why_not_emptied;
}

absl::Status Membership::Forget(uint32_t shard) {
  Changes changes;
  changes.forgotten_shards.push_back(shard);
  changes.counters = context_.facts.counters();  // they show that the number was issued
  NoteForgotten(*context_.facts.FindShard(shard), *changes.counters);
  changes.map = *context_.facts.map();
  changes.map->set_version(context_.facts.map_version() + 1);
  auto& shards = *changes.map->mutable_shards();
  shards.erase(std::remove_if(shards.begin(), shards.end(),
                              [shard](const v1::ShardInfo& info) { return info.shard() == shard; }),
               shards.end());
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  soft_.erase(shard);
  OnMap();
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
