// Tells shards the map and the tables.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/retry.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/catalogue.h"
#include "services/coordinator/metadata/members/membership.h"

namespace paceline::coordinator {
namespace {

constexpr BackoffPolicy kInstallBackoff{
    .initial = absl::Milliseconds(50), .max = absl::Seconds(1), .factor = 2.0, .jitter = 0.0};

}  // namespace

void Membership::HasVersions(uint32_t shard, std::optional<uint64_t> map, std::optional<uint64_t> catalogue) {
  const auto it = soft_.find(shard);
  if (it == soft_.end()) return;
  if (map.has_value()) it->second.map_version = *map;
  if (catalogue.has_value()) it->second.catalogue_version = *catalogue;
}

// A shard's versions came from this coordinator, or from an earlier one on the same store.
void Membership::HasAnswered(uint32_t shard, uint64_t map, std::optional<uint64_t> catalogue) {
  if (!soft_.contains(shard)) return;  // it was forgotten meanwhile
  HasVersions(shard, map, catalogue);
  soft_[shard].answered = true;
  const std::string who = context_.facts.ShardName(shard);
  v1::Known known;
  known.set_map_version(map);
  (void)age_.Check(known, who);
  (void)CheckCatalogue(catalogue.value_or(0), who);
}

bool Membership::Behind(uint32_t shard, const Soft& soft) const {
  const Facts& facts = context_.facts;
  if (facts.map() == nullptr || soft.installing || !Alive(shard)) return false;
  return soft.map_version < facts.map_version() ||
         soft.catalogue_version < facts.counters().catalogue_version();
}

void Membership::Pump() {
  MakeFirstMap();
  for (const auto& [id, soft] : soft_) {
    if (Behind(id, soft) && soft.next_install <= context_.now) Install(id);
  }
}

absl::Time Membership::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, soft] : soft_) {
    if (Behind(id, soft)) next = std::min(next, soft.next_install);
  }
  return next;
}

void Membership::Install(uint32_t shard) {
  const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
  soft_[shard].installing = true;
  v1::InstallRequest request;
  *request.mutable_map() = *context_.facts.map();
  *request.mutable_catalogue() = CatalogueOf(context_.facts);
  request.mutable_target()->set_shard(info.shard());
  request.mutable_target()->set_incarnation(info.incarnation());
  CallShard(context_, info, &ShardCaller::Install, request,
            [this, request](const absl::StatusOr<v1::InstallReply>& reply) { OnInstalled(request, reply); });
}

void Membership::OnInstalled(const v1::InstallRequest& request,
                             const absl::StatusOr<v1::InstallReply>& reply) {
  const uint32_t shard = request.target().shard();
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr) return;  // the shard was removed
  const v1::ShardInfo& info = known->info();
  if (info.incarnation() != request.target().incarnation()) return;  // an earlier start answered
  Soft& soft = soft_[shard];
  soft.installing = false;
  if (reply.ok()) {
    HasAnswered(shard, reply->map_version(), reply->catalogue_version());
    soft.failure.clear();
  } else {
    soft.failure = reply.status().ToString();
    context_.probe.CallRepeated(info, absl::StrCat("Install: ", soft.failure));
  }
  // A shard that answers but did not take the versions offered is not asked again at once either. Newer
  // versions go out without a pause: they may make the shard a primary.
  const bool took = reply.ok() && reply->map_version() >= request.map().version() &&
                    reply->catalogue_version() >= request.catalogue().version();
  soft.failures = took ? 0 : soft.failures + 1;
  soft.next_install =
      took ? absl::InfinitePast() : context_.now + kInstallBackoff.Delay(soft.failures - 1, 0);
  if (took && Behind(shard, soft)) Install(shard);
}

}  // namespace paceline::coordinator
