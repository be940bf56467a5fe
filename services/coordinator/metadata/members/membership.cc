// Shards: joins, the maps that follow, and the state of each shard.
#include "services/coordinator/metadata/members/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

// The interval between commits of how far folders are synced.
constexpr absl::Duration kPositionsEvery = absl::Seconds(10);

}  // namespace

Membership::Membership(Context& context)
    : context_(context), age_(context), superseding_(context), began_(context.now) {
  for (const auto& [id, shard] : context_.facts.shards()) soft_[id];
  ListenAfresh();
  OnMap();
}

void Membership::ListenAfresh() {
  for (auto& [id, soft] : soft_) soft.heard = context_.now;
}

uint32_t Membership::Level() const {
  return context_.facts.map() == nullptr ? 0 : LevelOf(*context_.facts.map());
}

v1::Map Membership::MapWith(const v1::ShardInfo& shard) const {
  return NextMap(*context_.facts.map(), shard, !context_.facts.AnybodyWasTold(), ChangeFloor());
}

// The level of a shard's later start is known when it joins, so the level changes only with a map.
uint32_t Membership::LevelWith(const ShardRecord* joining) const {
  uint32_t level = kFeatureLevel;
  for (const auto& [id, known] : context_.facts.shards()) {
    const bool again = joining != nullptr && joining->info().shard() == id;
    level = std::min(level, LevelOf(again ? *joining : known));
  }
  if (joining != nullptr) level = std::min(level, LevelOf(*joining));
  return std::max(level, Level());
}

// -- the map --

void Membership::MakeFirstMap() {
  const Facts& facts = context_.facts;
  if (facts.map() != nullptr || facts.shards().size() < context_.options.shards) return;
  Changes changes;
  changes.map = FirstMap(facts.shards(), facts.ring_bits(), context_.options.replicas);
  changes.map->set_cluster(facts.cluster());
  changes.map->set_feature_level(LevelWith(nullptr));
  if (context_.Commit(std::move(changes)).ok()) OnMap();  // otherwise the next beat tries again
}

void Membership::OnMap() {
  if (context_.facts.map() == nullptr) return;
  context_.probe.MapChanged(*context_.facts.map());
  lost_ = LostSegments(*context_.facts.map());
  lost_segments_.clear();
  to_recover_.clear();
  for (auto& [shard, segments] : lost_) {
    std::erase_if(segments, [this](uint32_t segment) {
      const bool recover = !context_.facts.map()->segments(static_cast<int>(segment)).lost();
      if (recover) to_recover_.insert(segment);
      return recover;
    });
    lost_segments_.insert(segments.begin(), segments.end());
  }
  std::erase_if(lost_, [](const auto& lost) { return lost.second.empty(); });
  FindTakeovers();
}

// A shard that beats was told its identity, and lives. To have joined is not enough: the late call of a start
// that died meanwhile may arrive after that of its successor, which proves nothing about the successor.
void Membership::FindTakeovers() {
  const v1::Map* map = context_.facts.map().get();
  if (map == nullptr) return;
  to_take_over_ = SegmentsToTakeOver(*map);
  std::erase_if(to_take_over_, [&](uint32_t segment) {
    const v1::Member& primary = map->segments(static_cast<int>(segment)).primary();
    const ShardRecord* shard = context_.facts.FindShard(primary.shard());
    const bool proved = std::ranges::count(shard->unproven(), primary.incarnation()) == 0;
    return !proved || LastBeat(primary.shard()) == nullptr;
  });
}

void Membership::ReportLost() const {
  for (const auto& [shard, lost] : lost_) {
    context_.probe.SegmentsLost(context_.facts.FindShard(shard)->info(), lost.size());
  }
}

absl::Status Membership::CommitMap(v1::Map map, Changes changes) {
  ABSL_RETURN_IF_ERROR(age_.behind());
  map.set_version(context_.facts.map_version() + 1);
  map.set_feature_level(LevelWith(nullptr));
  MarkLost(context_.facts.shards(), map);
  changes.map = std::move(map);
  ABSL_RETURN_IF_ERROR(context_.Commit(std::move(changes)));
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
  if (request.cluster() != 0) {
    const std::string who = shard == nullptr ? absl::StrCat("shard ", request.shard()) : shard->info().name();
    v1::Known known = request.known();  // an earlier release states less
    known.set_map_version(std::max(known.map_version(), request.map_version()));
    known.set_incarnation(std::max(known.incarnation(), request.incarnation()));
    known.set_catalogue_version(std::max(known.catalogue_version(), request.catalogue_version()));
    ABSL_RETURN_IF_ERROR(age_.Check(known, who));
  }
  if (shard == nullptr && request.shard() < context_.facts.counters().shards())
    return Removed(request.shard());
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
  // A map may overtake the answer to the shard's join, and be refused. A shard that beats has that answer, so
  // earlier failures no longer count; only a call already on its way can still fail for that reason.
  const bool first = !soft.last.has_value();
  if (first) soft.failures = 0;
  soft.last = request;
  soft.met = true;
  if (first) FindTakeovers();
  NotePositions();
  HasVersions(request.shard(), request.map_version(), request.catalogue_version());
  Pump();
  v1::BeatReply reply;
  reply.set_map_version(context_.facts.map_version());
  reply.set_catalogue_version(context_.facts.counters().catalogue_version());
  reply.set_term(TermToTell());
  return reply;
}

absl::Status Membership::CheckCatalogue(uint64_t version, absl::string_view who) {
  const uint64_t ours = context_.facts.counters().catalogue_version();
  if (version <= ours) return absl::OkStatus();
  return age_.Found(absl::StrCat(who, " knows of catalogue version ", version, "; the store knows ", ours));
}

// A commit that fails is tried again with a later beat.
void Membership::NotePositions() {
  if (context_.now < next_positions_) return;
  next_positions_ = context_.now + kPositionsEvery;
  Changes changes;
  for (const auto& [id, soft] : soft_) {
    const ShardRecord* known = context_.facts.FindShard(id);
    if (known == nullptr || !soft.last.has_value() || soft.last->position() <= known->position()) continue;
    changes.shards.push_back(*known);
    changes.shards.back().set_position(soft.last->position());
  }
  if (!changes.shards.empty()) (void)context_.Commit(changes);
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

std::string Membership::OlderShards() const {
  std::vector<std::string> older;
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (LevelOf(shard) < kFeatureLevel) older.push_back(context_.facts.ShardName(id));
  }
  return absl::StrCat("of an older feature level than ", kFeatureLevel, ": ", absl::StrJoin(older, ", "),
                      "; what belongs to that level waits until they are started from this release");
}

absl::Status Membership::CheckSpoken(uint32_t level, absl::string_view what) const {
  if (level <= Level()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " belongs to feature level ", level, ", and there are shards ", OlderShards()));
}

bool Membership::DiskUseless(uint32_t shard) const {
  const v1::BeatRequest* last = LastBeat(shard);
  // Without replicas a move takes the only copy with it, so a bad disk is useless whatever is acknowledged.
  return last != nullptr && (last->durable() || context_.options.replicas == 0) &&
         (last->disk().state() == v1::DiskHealth::FULL || last->disk().state() == v1::DiskHealth::FAILS);
}

std::vector<std::string> Membership::Problems() const {
  const Facts& facts = context_.facts;
  std::vector<std::string> problems;
  if (!age_.behind().ok()) problems.emplace_back(age_.behind().message());
  if (facts.map() == nullptr) {
    problems.push_back(absl::StrCat(facts.shards().size(), " of ", context_.options.shards,
                                    " shards have joined; the cluster starts when the others do"));
  }
  for (const auto& [id, soft] : soft_) {
    const bool drains = facts.FindShard(id)->draining();
    if (drains && SegmentsOf(*facts.map(), id).empty()) continue;  // it is about to go, or has gone
    if (!Alive(id)) {
      problems.push_back(absl::StrCat(
          facts.ShardName(id), " has been silent for ", Seconds(Silence(id)), "; ",
          IsPrimary(id) ? "what needs its segments waits for it" : "others serve the segments now",
          ": see whether its process runs and reaches the coordinator",
          IsPrimary(id) ? "; if it never will, `paceline recover` says what would be lost without it" : ""));
    } else if (soft.last.has_value() && soft.failures > 1 && !soft.failure.empty()) {
      problems.push_back(absl::StrCat(
          facts.ShardName(id), " was heard of ", Seconds(Silence(id)), " ago, but cannot be told the map: ",
          soft.failure, "; it has just ended, or its --peer-advertise is not where others reach it"));
    }
    if (Alive(id) && soft.last.has_value() && soft.last->emptied()) {
      problems.push_back(absl::StrCat(facts.ShardName(id),
                                      " has marked its folder as emptied and serves nothing: go on with "
                                      "`paceline shard remove ",
                                      facts.FindShard(id)->info().name(), "`, or start it again"));
    }
    if (Alive(id) && soft.last.has_value() && soft.last->connections().full()) {
      problems.push_back(RefusesConnections(facts.ShardName(id), soft.last->connections().refused(),
                                            soft.last->connections().descriptors()));
    }
  }
  if (facts.map() != nullptr && Level() < kFeatureLevel) problems.push_back(OlderShards());
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
