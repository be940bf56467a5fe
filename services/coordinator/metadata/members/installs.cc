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
// A map may be megabytes, and each shard of a new cluster needs one.
constexpr size_t kWholeMapsMax = 32;

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
  if (facts.map() == nullptr || soft.installing) return false;
  const bool lacks =
      soft.map_version < facts.map_version() || soft.catalogue_version < facts.counters().catalogue_version();
  return lacks && Alive(shard);
}

void Membership::Pump() {
  MakeFirstMap();
  for (const auto& [id, soft] : soft_) InstallIfDue(id, soft);
}

void Membership::PumpShard(uint32_t shard) {
  const auto it = soft_.find(shard);
  if (it != soft_.end()) InstallIfDue(shard, it->second);
}

void Membership::InstallIfDue(uint32_t shard, const Soft& soft) {
  if (Behind(shard, soft) && soft.next_install <= context_.now && !WaitsForRoom(soft)) Install(shard);
}

absl::Time Membership::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, soft] : soft_) {
    if (Behind(id, soft) && !WaitsForRoom(soft)) next = std::min(next, soft.next_install);
  }
  return next;
}

std::shared_ptr<const v1::Map> Membership::DeltaFor(const Soft& soft) const {
  if (Level() < 2 || soft.wants_whole) return nullptr;
  return context_.facts.map_history().Since(soft.map_version);
}

bool Membership::WaitsForRoom(const Soft& soft) const {
  return whole_maps_ >= kWholeMapsMax && soft.map_version < context_.facts.map_version() &&
         DeltaFor(soft) == nullptr;
}

void Membership::Install(uint32_t shard) {
  const Facts& facts = context_.facts;
  const v1::ShardInfo& info = facts.FindShard(shard)->info();
  Soft& soft = soft_[shard];
  soft.installing = true;
  Installing sent;
  sent.map_version = facts.map_version();
  sent.catalogue_version = facts.counters().catalogue_version();
  sent.target.set_shard(info.shard());
  sent.target.set_incarnation(info.incarnation());
  v1::InstallRequest request;
  *request.mutable_target() = sent.target;
  if (soft.map_version < sent.map_version) AddMap(soft, request, sent);
  if (soft.catalogue_version < sent.catalogue_version) *request.mutable_catalogue() = CatalogueOf(facts);
  if (sent.whole) whole_maps_ += 1;
  CallShard(context_, info, &ShardCaller::Install, std::move(request),
            [this, sent](const absl::StatusOr<v1::InstallReply>& reply) { OnInstalled(sent, reply); });
}

void Membership::AddMap(const Soft& soft, v1::InstallRequest& request, Installing& sent) const {
  const std::shared_ptr<const v1::Map> delta = DeltaFor(soft);
  sent.whole = delta == nullptr;
  if (delta != nullptr) {
    *request.mutable_map() = *delta;
  } else if (Level() < 2) {
    *request.mutable_map() = *context_.facts.map();
  } else {
    request.mutable_map()->set_version(sent.map_version);
    request.mutable_map()->set_cluster(context_.facts.cluster());
    request.set_whole_map(context_.facts.map_history().Encoded());
  }
}

void Membership::OnInstalled(const Installing& sent, const absl::StatusOr<v1::InstallReply>& reply) {
  if (sent.whole) whole_maps_ -= 1;
  const uint32_t shard = sent.target.shard();
  const ShardRecord* known = context_.facts.FindShard(shard);
  // Not if the shard was removed, or an earlier start answered.
  if (known != nullptr && known->info().incarnation() == sent.target.incarnation()) {
    NoteInstalled(sent, reply, known->info());
  }
  if (sent.whole) Pump();
}

void Membership::NoteInstalled(const Installing& sent, const absl::StatusOr<v1::InstallReply>& reply,
                               const v1::ShardInfo& info) {
  const uint32_t shard = info.shard();
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
  const bool took = reply.ok() && reply->map_version() >= sent.map_version &&
                    reply->catalogue_version() >= sent.catalogue_version;
  soft.wants_whole = absl::IsInvalidArgument(reply.status()) && !sent.whole;
  soft.failures = took ? 0 : soft.failures + 1;
  soft.next_install =
      took ? absl::InfinitePast() : context_.now + kInstallBackoff.Delay(soft.failures - 1, 0);
  if (took) InstallIfDue(shard, soft);
}

}  // namespace paceline::coordinator
