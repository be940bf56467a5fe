// Decides which process may join, as which shard.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/members/stamps.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

constexpr int kPastNoncesMax = 16;

absl::Status FolderRefused(absl::string_view name, absl::string_view why, absl::string_view what_to_do) {
  return absl::FailedPreconditionError(absl::StrCat(name, ": --data-dir: ", why, ": ", what_to_do));
}

constexpr absl::string_view kBringBack =
    "bring the newest folder back, or move this one away and start with an empty one: `paceline recover` "
    "says what is lost then";

bool IsMember(const v1::Map& map, const v1::ShardInfo& start) {
  const auto is = [&start](const v1::Member& member) {
    return member.shard() == start.shard() && member.incarnation() == start.incarnation();
  };
  return std::ranges::any_of(map.segments(), [&is](const v1::SegmentConfig& segment) {
    return is(segment.primary()) || std::ranges::any_of(segment.replicas(), is);
  });
}

}  // namespace

absl::StatusOr<v1::JoinClusterReply> Membership::Join(const v1::JoinClusterRequest& request) {
  ABSL_RETURN_IF_ERROR(CheckJoin(request));
  const ShardRecord* known = context_.facts.FindShard(request.name());
  if (known == nullptr || known->nonce() != request.nonce()) {
    ABSL_RETURN_IF_ERROR(CheckFolder(request));
    ABSL_RETURN_IF_ERROR(CheckNewest(request));
    if (known != nullptr) {
      ABSL_RETURN_IF_ERROR(superseding_.Check(request, *known, Silence(known->info().shard())));
      soft_[known->info().shard()].met = true;
    }
    if (request.ask()) return ReplyTo(request);
    ABSL_RETURN_IF_ERROR(AddStart(request));
  }
  const v1::ShardInfo& shard = context_.facts.FindShard(request.name())->info();
  soft_[shard.shard()].heard = context_.now;
  soft_[shard.shard()].met = true;
  Pump();
  v1::JoinClusterReply reply = ReplyTo(request);
  reply.set_incarnation(shard.incarnation());
  return reply;
}

v1::JoinClusterReply Membership::ReplyTo(const v1::JoinClusterRequest& request) const {
  v1::JoinClusterReply reply;
  reply.set_feature_level(kFeatureLevel);
  reply.set_cluster(context_.facts.cluster());
  reply.set_term(TermToTell());
  if (const ShardRecord* known = context_.facts.FindShard(request.name())) {
    reply.set_shard(known->info().shard());
    *reply.mutable_stamp() = known->stamp();
  }
  return reply;
}

absl::Status Membership::CheckJoin(const v1::JoinClusterRequest& request) const {
  const Limits& limits = context_.options.limits;
  ABSL_RETURN_IF_ERROR(CheckFeatureLevel(request.feature_level()));
  ABSL_RETURN_IF_ERROR(CheckName("name", request.name(), limits.name_bytes));
  ABSL_RETURN_IF_ERROR(CheckAddress("address", request.address()));
  ABSL_RETURN_IF_ERROR(CheckText("zone", request.zone(), limits.text_bytes));
  for (const auto& [field, address] : {std::pair("metrics_address", &request.metrics_address()),
                                       std::pair("peer_address", &request.peer_address())}) {
    if (!address->empty()) ABSL_RETURN_IF_ERROR(CheckAddress(field, *address));
  }
  if (request.nonce() == 0) {
    return absl::InvalidArgumentError("nonce: 0; expected a random number, drawn once a process start");
  }
  return CheckText("folder.place", request.folder().place(), limits.text_bytes);
}

// -- folders --

absl::Status Membership::CheckFolder(const v1::JoinClusterRequest& request) {
  const v1::DataFolder& folder = request.folder();
  if (folder.cluster() == 0) return absl::OkStatus();  // the folder is new or emptied, or there is none
  ABSL_RETURN_IF_ERROR(CheckOwner(request));
  const ShardRecord& known = *context_.facts.FindShard(request.name());
  ABSL_RETURN_IF_ERROR(CheckAge(folder, known));
  ABSL_RETURN_IF_ERROR(age_.Check(request.known(), request.name()));
  const bool served_without =
      !known.keeps_data() && context_.facts.map() != nullptr && IsMember(*context_.facts.map(), known.info());
  if (!served_without) return absl::OkStatus();
  return FolderRefused(
      request.name(), "this shard has served without a folder since then, and the folder lacks those updates",
      "start with an empty folder");
}

absl::Status Membership::CheckOwner(const v1::JoinClusterRequest& request) {
  const v1::DataFolder& folder = request.folder();
  const Facts& facts = context_.facts;
  constexpr absl::string_view kGiveOwn = "give each shard the folder it had before, or an empty one";
  if (folder.cluster() != facts.cluster()) {
    return FolderRefused(
        request.name(),
        absl::StrCat("it has data of cluster ", folder.cluster(), "; this is cluster ", facts.cluster()),
        kGiveOwn);
  }
  const ShardRecord* owner = facts.FindShard(folder.shard());
  if (owner != nullptr && owner->info().name() == request.name()) return absl::OkStatus();
  if (owner != nullptr) {
    return FolderRefused(request.name(), absl::StrCat("it has the data of ", owner->info().name()), kGiveOwn);
  }
  if (folder.shard() < facts.counters().shards()) return Removed(folder.shard());
  return age_.Found(absl::StrCat(request.name(), " has data of shard ", folder.shard(), ", the store knows ",
                                 facts.counters().shards(), " shards"));
}

absl::Status Membership::Removed(uint32_t shard) const {
  return absl::FailedPreconditionError(
      absl::StrCat("shard ", shard,
                   " was removed from this cluster (`paceline shard remove`); this process must "
                   "end. To join as a new shard, start it with an empty --data-dir"));
}

absl::Status Membership::CheckAge(const v1::DataFolder& folder, const ShardRecord& known) {
  const std::string& name = known.info().name();
  switch (AgeOf(folder, known.stamp())) {
    case FolderAge::kStoreBehind:
      return age_.Found(absl::StrCat("the folder of ", name, " has seen start ", folder.previous().count(),
                                     ", the store knows ", known.stamp().count()));
    case FolderAge::kFolderOld:
      return FolderRefused(name,
                           absl::StrCat("it is an older copy: it ends with start ", folder.newest().count(),
                                        ", the shard's last one was ", known.stamp().count()),
                           kBringBack);
    case FolderAge::kCopy:
      return FolderRefused(
          name,
          absl::StrCat("it is a copy of a folder of which another copy is in use: both had a start ",
                       known.stamp().count()),
          kBringBack);
    case FolderAge::kGood:
      break;
  }
  if (folder.position() >= known.position()) return absl::OkStatus();
  return FolderRefused(name,
                       absl::StrCat("it is an older copy, or has lost its end: it has ", folder.position(),
                                    " batches; ", known.position(), " had been synced"),
                       kBringBack);
}

// -- starts --

absl::Status Membership::CheckNewest(const v1::JoinClusterRequest& request) const {
  if (std::ranges::count(context_.facts.counters().forgotten_nonces(), request.nonce()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("this start of ", request.name(),
                     " was removed from this cluster, or has drained and gone; this process must end"));
  }
  const ShardRecord* known = context_.facts.FindShard(request.name());
  if (known == nullptr || std::ranges::count(known->past_nonces(), request.nonce()) == 0)
    return absl::OkStatus();
  // The network may deliver a call of an earlier start late: it must not end the newer start.
  return absl::FailedPreconditionError(absl::StrCat("a newer start of ", known->info().name(),
                                                    " has joined from ", known->info().address(),
                                                    "; this process must end"));
}

absl::Status Membership::CheckLevel(const v1::JoinClusterRequest& request) const {
  if (request.feature_level() >= Level()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("feature_level: ", request.name(), " speaks ", request.feature_level(),
                   "; this cluster has records of level ", Level(),
                   ", which it could not read: start it from a release that speaks that level"));
}

absl::Status Membership::AddStart(const v1::JoinClusterRequest& request) {
  // A process without a folder knows no numbers. A folder whose shard ended before it was told of its last
  // start knows no more than an older store does.
  ABSL_RETURN_IF_ERROR(CheckMayMakeMaps());
  ABSL_RETURN_IF_ERROR(CheckLevel(request));
  Changes changes;
  changes.counters = context_.facts.counters();
  changes.counters->set_incarnation(changes.counters->incarnation() + 1);
  ABSL_ASSIGN_OR_RETURN(ShardRecord record, RecordFor(request, *changes.counters));
  const v1::ShardInfo shard = record.info();
  const bool again = context_.facts.FindShard(shard.shard()) != nullptr;
  changes.shards.push_back(std::move(record));
  if (context_.facts.map() != nullptr) {
    changes.map = MapWith(shard);
    changes.map->set_feature_level(LevelWith(&changes.shards.back()));
    std::map<uint32_t, ShardRecord> shards = context_.facts.shards();
    shards[shard.shard()] = changes.shards.back();
    MarkLost(shards, *changes.map);
  }
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  soft_[shard.shard()] = Soft();
  context_.probe.ShardJoined(shard, again);
  if (changes.map.has_value()) OnMap();
  if (const auto it = lost_.find(shard.shard()); it != lost_.end()) {
    context_.probe.SegmentsLost(shard, it->second.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardRecord> Membership::RecordFor(const v1::JoinClusterRequest& request,
                                                  CountersRecord& counters) const {
  const Facts& facts = context_.facts;
  ShardRecord record;
  if (const ShardRecord* known = facts.FindShard(request.name())) {
    record = *known;
    // A drain for which no person asked is of the start whose pod ended (Stops). A pod that begins is wanted,
    // or asks again before it ends; until that was known, its folder would be marked as emptied for good.
    if (record.draining_unwanted()) {
      record.clear_draining();
      record.clear_draining_unwanted();
    }
    record.clear_past_nonces();
    record.add_past_nonces(known->nonce());
    for (uint64_t nonce : known->past_nonces()) {
      if (record.past_nonces_size() < kPastNoncesMax) record.add_past_nonces(nonce);
    }
  } else {
    const size_t limit = context_.options.limits.shards;
    if (facts.shards().size() >= limit)
      return TooMany("shards", limit, "start this one under the name of a shard that exists");
    record.mutable_info()->set_shard(counters.shards());
    record.mutable_info()->set_name(request.name());
    counters.set_shards(counters.shards() + 1);
  }
  NoteUnproven(request, record);
  record.set_place(request.folder().place());
  if (request.has_folder()) ABSL_RETURN_IF_ERROR(Stamp(request.folder(), record));
  record.set_nonce(request.nonce());
  record.set_metrics_address(request.metrics_address());
  record.set_keeps_data(request.keeps_data());
  record.set_feature_level(request.feature_level());
  record.mutable_info()->set_address(request.address());
  record.mutable_info()->set_peer_address(request.peer_address());
  record.mutable_info()->set_zone(request.zone());
  const bool same = record.info().incarnation() != 0 && Planted(Bug::kRestartKeptInSync);
  if (!same) record.mutable_info()->set_incarnation(counters.incarnation());
  return record;
}

// Only starts that the map names matter.
void Membership::NoteUnproven(const v1::JoinClusterRequest& request, ShardRecord& record) const {
  const bool proved = Superseding::ProvesEnd(request, record);
  std::vector<uint64_t> starts(record.unproven().begin(), record.unproven().end());
  if (!proved && record.info().incarnation() != 0) starts.push_back(record.info().incarnation());
  record.clear_unproven();
  v1::ShardInfo start = record.info();
  for (const uint64_t incarnation : starts) {
    start.set_incarnation(incarnation);
    if (context_.facts.map() != nullptr && IsMember(*context_.facts.map(), start))
      record.add_unproven(incarnation);
  }
}

// The store accepts a start only if it has the folder's previous stamp.
absl::Status Membership::Stamp(const v1::DataFolder& folder, ShardRecord& record) {
  if (!SameStamp(record.stamp(), folder.previous())) {
    return absl::AbortedError("another start has replaced the stamp of this one; ask again");
  }
  if (folder.newest().count() <= record.stamp().count()) {
    return absl::InvalidArgumentError(absl::StrCat("folder.newest: start ", folder.newest().count(),
                                                   "; expected one after ", record.stamp().count()));
  }
  *record.mutable_stamp() = folder.newest();
  if (folder.cluster() == 0) record.set_position(0);
  return absl::OkStatus();
}

// -- numbers --

absl::Status Membership::CheckKnown(const v1::Known& known, const v1::Member& from) {
  return age_.Check(known, context_.facts.ShardName(from.shard()));
}

// A coordinator whose store turns out to be an older copy should leave no trace of its terms: otherwise the
// newest store would be found to lack them.
uint64_t Membership::TermToTell() const {
  return CheckMayGiveIds().ok() ? context_.facts.term() : 0;
}

bool Membership::Listens() const {
  return context_.now < began_ + context_.options.shard_silent;
}

bool Membership::Unmet(uint32_t shard, const Soft& soft) const {
  return !soft.met && (Listens() || IsPrimary(shard));
}

absl::Status Membership::CheckMet(absl::FunctionRef<bool(uint32_t, const Soft&)> unmet) const {
  ABSL_RETURN_IF_ERROR(age_.behind());
  std::vector<std::string> names;
  for (const auto& [id, soft] : soft_) {
    if (unmet(id, soft)) names.push_back(context_.facts.ShardName(id));
  }
  if (names.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the coordinator has begun ", Seconds(context_.now - began_),
                   " ago; it gives out no numbers, makes no map and denies nothing before it has heard of ",
                   absl::StrJoin(names, ", "), "; try again"));
}

absl::Status Membership::CheckMayGiveIds() const {
  return CheckMet([this](uint32_t shard, const Soft& soft) { return Unmet(shard, soft); });
}

// Sessions require every primary anyway. Of the other shards one may be gone for good. A shard beats once a
// second, and later if its last beat went to a machine that is gone; but it answers at once.
absl::Status Membership::CheckMayMakeMaps(absl::Span<const uint32_t> silent) const {
  if (!Listens()) return age_.behind();
  return CheckMet([&](uint32_t shard, const Soft& soft) {
    return Unmet(shard, soft) && !soft.answered && !absl::c_linear_search(silent, shard);
  });
}

}  // namespace paceline::coordinator
