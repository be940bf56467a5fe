#include "services/coordinator/metadata/coordinator_core.h"

#include <algorithm>
#include <utility>

#include "libs/base/status.h"
#include "services/coordinator/metadata/catalogue.h"
#include "services/coordinator/metadata/status.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(250);

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorCore>> CoordinatorCore::Create(Options options, Store& store,
                                                                         const world::Clock& clock,
                                                                         ShardCaller& caller, Probe& probe) {
  ABSL_RETURN_IF_ERROR(Validate(options));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Facts> facts, Facts::Load(store, options.ring_bits));
  std::unique_ptr<CoordinatorCore> core(
      new CoordinatorCore(std::move(options), std::move(facts), clock, caller, probe));
  core->OnTime();
  return core;
}

CoordinatorCore::CoordinatorCore(Options options, std::unique_ptr<Facts> facts, const world::Clock& clock,
                                 ShardCaller& caller, Probe& probe)
    : facts_(std::move(facts)),
      context_{.facts = *facts_,
               .clock = clock,
               .caller = caller,
               .probe = probe,
               .options = std::move(options),
               .outbox = {},
               .now = clock.Now()},
      membership_(context_),
      fan_outs_(context_, membership_, *this),
      sessions_(context_, membership_, fan_outs_),
      workers_(context_, membership_, sessions_),
      tables_(context_, membership_, sessions_),
      watchers_(context_),
      last_on_time_(context_.now) {
  sessions_.Start([this](const SessionRecord& session) { workers_.OnMoved(session); });
}

CoordinatorCore::~CoordinatorCore() = default;

absl::Status CoordinatorCore::CheckServing() const {
  if (stopped_) return absl::UnavailableError("the coordinator is stopping; try again when it is back");
  if (!deposed()) return absl::OkStatus();
  return absl::UnavailableError(
      "another coordinator has started on the same store and leads now; ask that one");
}

void CoordinatorCore::FollowMap() {
  if (facts_->map_version() == followed_map_) return;
  followed_map_ = facts_->map_version();
  watchers_.Notify();
  sessions_.OnMap();
  fan_outs_.Pump();
}

// -- shards --

absl::StatusOr<v1::JoinClusterReply> CoordinatorCore::JoinCluster(const v1::JoinClusterRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  absl::StatusOr<v1::JoinClusterReply> reply = membership_.Join(request);
  FollowMap();
  return reply;
}

absl::StatusOr<v1::BeatReply> CoordinatorCore::Beat(const v1::BeatRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  ABSL_ASSIGN_OR_RETURN(v1::BeatReply reply, membership_.Beat(request));
  workers_.OnBeat(request);
  FollowMap();
  return reply;
}

// -- planned moves --

absl::StatusOr<v1::Map> CoordinatorCore::MoveSegment(uint32_t segment, uint32_t shard) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  ABSL_RETURN_IF_ERROR(membership_.MoveSegment(segment, shard));
  FollowMap();
  return *facts_->map();
}

// -- everyone --

absl::StatusOr<WatchId> CoordinatorCore::WatchMap(uint64_t known_version, OnMapFunction on_map) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  return watchers_.Add(known_version, std::move(on_map));
}

void CoordinatorCore::Unwatch(WatchId id) {
  watchers_.Remove(id);
}

absl::StatusOr<v1::Catalogue> CoordinatorCore::GetCatalogue() {
  ABSL_RETURN_IF_ERROR(CheckServing());
  return CatalogueOf(*facts_);
}

v1::StatusReply CoordinatorCore::Status() {
  const Visit visit(context_);
  return StatusOf(context_, membership_, sessions_, fan_outs_, workers_);
}

// -- jobs --

Ticket CoordinatorCore::OpenSession(const v1::OpenSessionRequest& request, absl::Time deadline,
                                    Done<v1::OpenSessionReply> done) {
  const Visit visit(context_);
  if (const absl::Status status = CheckServing(); !status.ok()) return sessions_.Tell(done, {status});
  return sessions_.Open(request, deadline, std::move(done));
}

Ticket CoordinatorCore::JoinJob(const v1::JoinJobRequest& request, absl::Time deadline,
                                Done<v1::JoinJobReply> done) {
  const Visit visit(context_);
  if (const absl::Status status = CheckServing(); !status.ok()) return sessions_.Tell(done, {status});
  return workers_.Join(request, deadline, std::move(done));
}

Ticket CoordinatorCore::FinishWorker(const v1::FinishWorkerRequest& request, absl::Time deadline,
                                     Done<v1::FinishWorkerReply> done) {
  const Visit visit(context_);
  if (const absl::Status status = CheckServing(); !status.ok()) return sessions_.Tell(done, {status});
  return workers_.Finish(request, deadline, std::move(done));
}

Ticket CoordinatorCore::CloseSession(const v1::CloseSessionRequest& request, absl::Time deadline,
                                     Done<v1::CloseSessionReply> done) {
  const Visit visit(context_);
  if (const absl::Status status = CheckServing(); !status.ok()) return sessions_.Tell(done, {status});
  return sessions_.Close(request, deadline, std::move(done));
}

absl::StatusOr<v1::KeepAliveReply> CoordinatorCore::KeepAlive(const v1::KeepAliveRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  return sessions_.KeepAlive(request);
}

absl::StatusOr<v1::OpenTableReply> CoordinatorCore::OpenTable(const v1::OpenTableRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  return tables_.Open(request);
}

void CoordinatorCore::Abandon(Ticket ticket) {
  const Visit visit(context_);
  sessions_.Abandon(ticket);
}

// -- events --

void CoordinatorCore::OnNamedEverywhere(uint64_t session) {
  const SessionRecord* record = facts_->FindSession(session);
  if (record == nullptr) return;
  if (record->state() == SessionRecord::JOINING) {
    workers_.OnJoinedEverywhere(*record);
  } else {
    sessions_.OnNamedEverywhere(*record);
  }
}

void CoordinatorCore::OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock) {
  workers_.OnJoinRefused(session, job, segment, min_clock);
}

void CoordinatorCore::OnTime() {
  const Visit visit(context_);
  const absl::Duration gap = context_.now - last_on_time_;
  last_on_time_ = context_.now;
  if (stopped_) return;
  if (deposed()) {
    fan_outs_.StopAll();
    sessions_.AnswerEverything(CheckServing());
    return;
  }
  if (gap > context_.options.pause) {
    context_.probe.Paused(gap);
    membership_.ListenAfresh();
    sessions_.ListenAfresh();
  }
  membership_.Pump();
  FollowMap();
  fan_outs_.Pump();
  workers_.OnTime();
  sessions_.OnTime();
}

absl::Time CoordinatorCore::NextDeadline() const {
  if (stopped_) return absl::InfiniteFuture();
  if (deposed()) return last_on_time_ + kTick;
  return std::min(
      {last_on_time_ + kTick, sessions_.NextDeadline(), fan_outs_.NextTry(), membership_.NextTry()});
}

void CoordinatorCore::Stop() {
  const Visit visit(context_);
  stopped_ = true;
  fan_outs_.StopAll();
  sessions_.AnswerEverything(CheckServing());
}

Gauges CoordinatorCore::gauges() {
  context_.now = context_.clock.Now();
  Gauges gauges;
  for (int state = SessionRecord::OPENING; state < SessionRecord::CLOSED; ++state) {
    gauges.sessions[StateName(static_cast<SessionRecord::State>(state))] = 0;
  }
  for (const auto& [id, session] : facts_->sessions()) {
    if (session.state() != SessionRecord::CLOSED) gauges.sessions[StateName(session.state())] += 1;
  }
  gauges.shards = facts_->shards().size();
  gauges.shards_alive = membership_.AliveCount();
  for (const auto& [shard, segments] : membership_.lost()) gauges.segments_lost += segments.size();
  gauges.tables = facts_->tables().size();
  gauges.requests_waiting = sessions_.waiters().size();
  gauges.watchers = watchers_.size();
  gauges.map_version = facts_->map_version();
  gauges.catalogue_version = facts_->counters().catalogue_version();
  gauges.term = facts_->term();
  return gauges;
}

}  // namespace paceline::coordinator
