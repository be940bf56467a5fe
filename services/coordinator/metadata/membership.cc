#include "services/coordinator/metadata/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/retry.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/catalogue.h"
#include "services/coordinator/metadata/map_plan.h"
#include "services/coordinator/metadata/text.h"

namespace paceline::coordinator {
namespace {

constexpr BackoffPolicy kInstallBackoff{
    .initial = absl::Milliseconds(50), .max = absl::Seconds(1), .factor = 2.0, .jitter = 0.0};
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
  record.mutable_info()->set_address(request.address());
  record.mutable_info()->set_zone(request.zone());
  record.mutable_info()->set_incarnation(incarnation);
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
  absl::StatusOr<v1::Map> map = FirstMap(facts.shards(), facts.ring_bits());
  if (!map.ok()) return;  // cannot be: there are shards, and the ring was checked when the options were
  Changes changes;
  changes.map = *std::move(map);
  if (context_.Commit(changes).ok()) OnMap();  // otherwise the next beat tries again
}

void Membership::OnMap() {
  if (context_.facts.map() == nullptr) return;
  context_.probe.MapChanged(*context_.facts.map());
  lost_ = LostSegments(*context_.facts.map());
  lost_segments_.clear();
  for (const auto& [shard, segments] : lost_) lost_segments_.insert(segments.begin(), segments.end());
}

// -- beats --

absl::StatusOr<v1::BeatReply> Membership::Beat(const v1::BeatRequest& request) {
  const ShardRecord* shard = context_.facts.FindShard(request.shard());
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
  soft.last = request;
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
  if (map->segments(static_cast<int>(segment)).primary().shard() == shard) return absl::OkStatus();
  Changes changes;
  changes.map = MapWithMove(*map, segment, shard);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  OnMap();
  return absl::OkStatus();
}

// -- telling shards what is new --

void Membership::HasVersions(uint32_t shard, std::optional<uint64_t> map, std::optional<uint64_t> catalogue) {
  const auto it = soft_.find(shard);
  if (it == soft_.end()) return;
  if (map.has_value()) it->second.map_version = *map;
  if (catalogue.has_value()) it->second.catalogue_version = *catalogue;
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
  ShardCaller::InstallDone done = AsVisit<absl::StatusOr<v1::InstallReply>>(
      context_, [this, shard, incarnation = info.incarnation()](absl::StatusOr<v1::InstallReply> reply) {
        OnInstalled(shard, incarnation, reply);
      });
  context_.outbox.Add([&caller = context_.caller, shard, address = info.address(),
                       request = std::move(request),
                       done = std::move(done)] { caller.Install(ShardId(shard), address, request, done); });
}

void Membership::OnInstalled(uint32_t shard, uint64_t incarnation,
                             const absl::StatusOr<v1::InstallReply>& reply) {
  const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
  if (info.incarnation() != incarnation) return;  // the answer of an earlier start
  Soft& soft = soft_[shard];
  soft.installing = false;
  if (reply.ok()) {
    HasVersions(shard, reply->map_version(), reply->catalogue_version());
    soft.failure.clear();
  } else {
    soft.failure = reply.status().ToString();
    context_.probe.CallRepeated(info, absl::StrCat("Install: ", soft.failure));
  }
  // One that answers and stays behind is not asked again at once either.
  const bool settled = reply.ok() && !Behind(shard, soft);
  soft.failures = settled ? 0 : soft.failures + 1;
  soft.next_install =
      settled ? absl::InfinitePast() : context_.now + kInstallBackoff.Delay(soft.failures - 1, 0);
}

// -- questions --

bool Membership::Alive(uint32_t shard) const {
  return soft_.contains(shard) && Silence(shard) <= context_.options.shard_silent;
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

std::string Membership::LostText(uint32_t shard, const std::set<uint32_t>& segments) const {
  return absl::StrCat(
      "acknowledged data of segments ", Ranges(segments), " was in the memory of an earlier start of ",
      context_.facts.FindShard(shard)->info().name(),
      " and is gone: restart the cluster with a fresh --data-dir and start the job again, from its "
      "last saved model if there is one");
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
      problems.push_back(
          absl::StrCat(facts.ShardName(id), " has been silent for ", Seconds(Silence(id)),
                       "; what needs its segments waits for it: see whether its process runs and "
                       "reaches the coordinator"));
    } else if (!soft.failure.empty()) {
      problems.push_back(absl::StrCat(facts.ShardName(id), " beats but cannot be told the map: ",
                                      soft.failure, "; see whether its address is right"));
    }
  }
  for (const auto& [shard, segments] : lost_) problems.push_back(LostText(shard, segments));
  return problems;
}

}  // namespace paceline::coordinator
