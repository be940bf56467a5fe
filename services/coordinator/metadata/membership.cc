// Shards: who joins, which map follows, and how they are.
#include "services/coordinator/metadata/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/map_plan.h"
#include "services/coordinator/metadata/text.h"

namespace paceline::coordinator {
namespace {

constexpr int kPastNoncesMax = 16;

}  // namespace

Membership::Membership(Context& context) : context_(context) {
  for (const auto& [id, shard] : context_.facts.shards()) soft_[id];
  ListenAfresh();
  OnMap();
}

void Membership::ListenAfresh() {
  for (auto& [id, soft] : soft_) soft.heard = context_.now;
}

// -- joining --

absl::StatusOr<v1::JoinClusterReply> Membership::Join(const v1::JoinClusterRequest& request) {
  ABSL_RETURN_IF_ERROR(CheckJoin(request));
  const ShardRecord* known = context_.facts.FindShard(request.name());
  if (known == nullptr || known->nonce() != request.nonce()) ABSL_RETURN_IF_ERROR(AddStart(request));
  const v1::ShardInfo& shard = context_.facts.FindShard(request.name())->info();
  soft_[shard.shard()].heard = context_.now;
  Pump();
  v1::JoinClusterReply reply;
  reply.set_shard(shard.shard());
  reply.set_incarnation(shard.incarnation());
  reply.set_feature_level(kFeatureLevel);
  reply.set_cluster(context_.facts.cluster());
  return reply;
}

absl::Status Membership::CheckJoin(const v1::JoinClusterRequest& request) const {
  const Limits& limits = context_.options.limits;
  ABSL_RETURN_IF_ERROR(CheckFeatureLevel(request.feature_level()));
  ABSL_RETURN_IF_ERROR(CheckName("name", request.name(), limits.name_bytes));
  ABSL_RETURN_IF_ERROR(CheckText("address", request.address(), limits.text_bytes));
  ABSL_RETURN_IF_ERROR(CheckText("zone", request.zone(), limits.text_bytes));
  ABSL_RETURN_IF_ERROR(CheckText("metrics_address", request.metrics_address(), limits.text_bytes));
  if (request.address().empty()) {
    return absl::InvalidArgumentError("address: empty; expected host:port where others reach the shard");
  }
  if (request.nonce() == 0) {
    return absl::InvalidArgumentError("nonce: 0; expected a random number, drawn once a process start");
  }
  return absl::OkStatus();
}

absl::Status Membership::AddStart(const v1::JoinClusterRequest& request) {
  Changes changes;
  changes.counters = context_.facts.counters();
  changes.counters->set_incarnation(changes.counters->incarnation() + 1);
  ABSL_ASSIGN_OR_RETURN(ShardRecord record, RecordFor(request, changes.counters->incarnation()));
  const v1::ShardInfo shard = record.info();
  const bool again = context_.facts.FindShard(shard.shard()) != nullptr;
  changes.shards.push_back(std::move(record));
  if (context_.facts.map() != nullptr) changes.map = MapWith(shard);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  soft_[shard.shard()] = Soft();
  context_.probe.ShardJoined(shard, again);
  nothing_found_.clear();  // this start may have another folder
  if (changes.map.has_value()) OnMap();
  if (const auto it = lost_.find(shard.shard()); it != lost_.end()) {
    context_.probe.SegmentsLost(shard, it->second.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardRecord> Membership::RecordFor(const v1::JoinClusterRequest& request,
                                                  uint64_t incarnation) const {
  const Facts& facts = context_.facts;
  ShardRecord record;
  if (const ShardRecord* known = facts.FindShard(request.name())) {
    record = *known;
    // The network may bring a call of an earlier start late: it must not put an end to the newer one.
    if (std::ranges::count(known->past_nonces(), request.nonce()) != 0) {
      return absl::FailedPreconditionError(absl::StrCat("a newer start of ", known->info().name(),
                                                        " has joined from ", known->info().address(),
                                                        "; this process must end"));
    }
    record.clear_past_nonces();
    record.add_past_nonces(known->nonce());
    for (uint64_t nonce : known->past_nonces()) {
      if (record.past_nonces_size() < kPastNoncesMax) record.add_past_nonces(nonce);
    }
  } else {
    const size_t limit = context_.options.limits.shards;
    if (facts.shards().size() >= limit)
      return TooMany("shards", limit, "start this one under a name that is known");
    record.mutable_info()->set_shard(static_cast<uint32_t>(facts.shards().size()));
    record.mutable_info()->set_name(request.name());
  }
  record.set_nonce(request.nonce());
  record.set_metrics_address(request.metrics_address());
  record.set_keeps_data(request.keeps_data());
  record.mutable_info()->set_address(request.address());
  record.mutable_info()->set_zone(request.zone());
  const bool same = record.info().incarnation() != 0 && Planted(Bug::kRestartKeptInSync);
  if (!same) record.mutable_info()->set_incarnation(incarnation);
  return record;
}

v1::Map Membership::MapWith(const v1::ShardInfo& shard) const {
  // What no session was ever open for cannot have been written to.
  const bool nothing_to_lose = context_.facts.counters().session() == 0;
  return NextMap(*context_.facts.map(), shard, nothing_to_lose);
}

// -- the map --

void Membership::MakeFirstMap() {
  const Facts& facts = context_.facts;
  if (facts.map() != nullptr || facts.shards().size() < context_.options.shards) return;
  absl::StatusOr<v1::Map> map =
      FirstMap(facts.shards(), facts.ring_bits(), static_cast<int>(context_.options.replicas));
  if (!map.ok()) return;  // cannot be: there are shards, and the ring was checked when the options were
  Changes changes;
  changes.map = *std::move(map);
  changes.map->set_cluster(facts.cluster());
  if (context_.Commit(changes).ok()) OnMap();  // otherwise the next beat tries again
}

void Membership::OnMap() {
  if (context_.facts.map() == nullptr) return;
  context_.probe.MapChanged(*context_.facts.map());
  lost_ = LostSegments(*context_.facts.map());
  lost_segments_.clear();
  to_recover_.clear();
  for (auto& [shard, segments] : lost_) {
    std::erase_if(segments, [this](uint32_t segment) {
      const v1::SegmentConfig& config = context_.facts.map()->segments(static_cast<int>(segment));
      const bool recover = !nothing_found_.contains(segment) && MayHaveDisk(config);
      if (recover) to_recover_.insert(segment);
      return recover;
    });
    lost_segments_.insert(segments.begin(), segments.end());
  }
  std::erase_if(lost_, [](const auto& lost) { return lost.second.empty(); });
  FindTakeovers();
}

// Whoever beats was told who it is, and lives. To have joined is not enough: the call of a start that died
// meanwhile may come late, after that of the one that followed it, which is no more over than before.
void Membership::FindTakeovers() {
  const v1::Map* map = context_.facts.map().get();
  if (map == nullptr) return;
  to_take_over_ = SegmentsToTakeOver(*map);
  std::erase_if(to_take_over_, [&](uint32_t segment) {
    return LastBeat(map->segments(static_cast<int>(segment)).primary().shard()) == nullptr;
  });
}

bool Membership::MayHaveDisk(const v1::SegmentConfig& config) const {
  const auto has = [this](const v1::Member& member) {
    const ShardRecord* shard = context_.facts.FindShard(member.shard());
    return shard != nullptr && shard->keeps_data();
  };
  return has(config.primary()) || std::ranges::any_of(config.replicas(), has);
}

void Membership::OnNothingFound(const std::set<uint32_t>& segments) {
  nothing_found_.insert(segments.begin(), segments.end());
  OnMap();
  for (const auto& [shard, lost] : lost_) {
    context_.probe.SegmentsLost(context_.facts.FindShard(shard)->info(), lost.size());
  }
}

absl::Status Membership::CommitMap(v1::Map map) {
  Changes changes;
  map.set_version(context_.facts.map_version() + 1);
  changes.map = std::move(map);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  OnMap();
  return absl::OkStatus();
}

// -- beats --

absl::StatusOr<v1::BeatReply> Membership::Beat(const v1::BeatRequest& request) {
  const ShardRecord* shard = context_.facts.FindShard(request.shard());
  if (request.cluster() != 0 && request.cluster() != context_.facts.cluster()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cluster: shard ", request.shard(), " has joined cluster ", request.cluster(),
                     ", this is the coordinator of cluster ", context_.facts.cluster(),
                     "; this process must end. (Was the coordinator given another --data-dir?)"));
  }
  if (shard == nullptr || request.incarnation() > context_.facts.counters().incarnation()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no shard ", request.shard(), " of incarnation ", request.incarnation(),
        " has joined this cluster; this process must end. (Was the coordinator given another --data-dir?)"));
  }
  if (request.incarnation() != shard->info().incarnation()) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation ", request.incarnation(), " of ",
                                                      shard->info().name(), " is superseded by ",
                                                      shard->info().incarnation(), ", which joined from ",
                                                      shard->info().address(), "; this process must end"));
  }
  const Limits& limits = context_.options.limits;
  if (request.workers_size() > static_cast<int>(limits.sessions) ||
      request.jobs_size() > static_cast<int>(limits.jobs)) {
    return absl::InvalidArgumentError(absl::StrCat("workers, jobs: ", request.workers_size(), ", ",
                                                   request.jobs_size(), " entries; expected at most ",
                                                   limits.sessions, ", ", limits.jobs));
  }
  Soft& soft = soft_[request.shard()];
  soft.heard = context_.now;
  // A map may overtake the answer to the shard's join and be turned away. Who beats has that answer: of what
  // failed before, only a call already on its way can still fail for it.
  const bool first = !soft.last.has_value();
  if (first) soft.failures = 0;
  soft.last = request;
  if (first) FindTakeovers();
  HasVersions(request.shard(), request.map_version(), request.catalogue_version());
  Pump();
  v1::BeatReply reply;
  reply.set_map_version(context_.facts.map_version());
  reply.set_catalogue_version(context_.facts.counters().catalogue_version());
  return reply;
}

absl::Status Membership::MoveSegment(uint32_t segment, uint32_t shard) {
  const std::shared_ptr<const v1::Map> map = context_.facts.map();
  if (map == nullptr) return absl::FailedPreconditionError("move: the cluster has no map yet");
  if (segment >= context_.facts.SegmentCount()) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment: ", segment, "; the ring has 0 to ", context_.facts.SegmentCount() - 1));
  }
  if (context_.facts.FindShard(shard) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("shard: ", shard, " is not of this cluster"));
  }
  if (IsLost(segment)) {
    return absl::FailedPreconditionError(absl::StrCat("move: segment ", segment, " is lost"));
  }
  const v1::SegmentConfig& config = map->segments(static_cast<int>(segment));
  if (config.primary().shard() == shard) return absl::OkStatus();
  if (!config.replicas().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("move: segment ", segment, " has replicas; hand it over to one of them"));
  }
  return CommitMap(MapWithMove(*map, segment, shard));
}

// -- questions --

bool Membership::Alive(uint32_t shard) const {
  return soft_.contains(shard) && Silence(shard) <= context_.options.shard_silent;
}

bool Membership::Current(const v1::Member& member) const {
  const ShardRecord* shard = context_.facts.FindShard(member.shard());
  return shard != nullptr && shard->info().incarnation() == member.incarnation();
}

size_t Membership::AliveCount() const {
  return static_cast<size_t>(
      std::ranges::count_if(soft_, [&](const auto& soft) { return Alive(soft.first); }));
}

absl::Duration Membership::Silence(uint32_t shard) const {
  const auto it = soft_.find(shard);
  return it == soft_.end() ? absl::InfiniteDuration() : context_.now - it->second.heard;
}

const v1::BeatRequest* Membership::LastBeat(uint32_t shard) const {
  const auto it = soft_.find(shard);
  return it == soft_.end() || !it->second.last.has_value() ? nullptr : &*it->second.last;
}

std::vector<std::string> Membership::Unreported() const {
  std::set<uint32_t> primaries;
  if (context_.facts.map() != nullptr) {
    for (const auto& segment : context_.facts.map()->segments()) primaries.insert(segment.primary().shard());
  }
  std::vector<std::string> names;
  for (uint32_t shard : primaries) {
    if (LastBeat(shard) == nullptr) names.push_back(context_.facts.ShardName(shard));
  }
  return names;
}

bool Membership::IsPrimary(uint32_t shard) const {
  return context_.facts.map() != nullptr &&
         std::ranges::any_of(context_.facts.map()->segments(),
                             [shard](const auto& config) { return config.primary().shard() == shard; });
}

std::string Membership::LostText(uint32_t shard, const std::set<uint32_t>& segments) const {
  const v1::Map& map = *context_.facts.map();
  const bool replicated = std::ranges::any_of(
      segments, [&map](uint32_t s) { return map.segments(static_cast<int>(s)).replicas_size() > 0; });
  return absl::StrCat(
      "acknowledged data of segments ", Ranges(segments), " was in the memory of an earlier start of ",
      context_.facts.FindShard(shard)->info().name(), replicated ? ", of their replicas too," : "",
      " and is gone: go on without it (`paceline recover --accept-loss ",
      context_.facts.FindShard(shard)->info().name(),
      "`) and start the job again, from its last saved model if there is one");
}

absl::Status Membership::CheckNothingLost() const {
  if (lost_.empty()) return absl::OkStatus();
  return absl::DataLossError(LostText(lost_.begin()->first, lost_.begin()->second));
}

std::vector<std::string> Membership::Problems() const {
  const Facts& facts = context_.facts;
  std::vector<std::string> problems;
  if (facts.map() == nullptr) {
    problems.push_back(absl::StrCat(facts.shards().size(), " of ", context_.options.shards,
                                    " shards have joined; the cluster starts when the others do"));
  }
  for (const auto& [id, soft] : soft_) {
    if (!Alive(id)) {
      problems.push_back(absl::StrCat(
          facts.ShardName(id), " has been silent for ", Seconds(Silence(id)), "; ",
          IsPrimary(id) ? "what needs its segments waits for it" : "others serve the segments now",
          ": see whether its process runs and reaches the coordinator",
          IsPrimary(id) ? "; if it never will, `paceline recover` says what would be lost without it" : ""));
    } else if (soft.last.has_value() && soft.failures > 1 && !soft.failure.empty()) {
      problems.push_back(absl::StrCat(facts.ShardName(id), " beats but cannot be told the map: ",
                                      soft.failure, "; see whether its address is right"));
    }
  }
  if (!to_take_over_.empty()) {
    problems.push_back(absl::StrCat("segments ", Ranges(to_take_over_),
                                    " wait for a replica to take over: their primaries were started again"));
  }
  if (!to_recover_.empty()) {
    problems.push_back(absl::StrCat("segments ", Ranges(to_recover_),
                                    " are being recovered from disk: all shards that held them were started "
                                    "again"));
  }
  for (const auto& [shard, segments] : lost_) problems.push_back(LostText(shard, segments));
  return problems;
}

}  // namespace paceline::coordinator
