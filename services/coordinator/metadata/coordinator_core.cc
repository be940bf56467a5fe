#include "services/coordinator/metadata/coordinator_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/catalogue.h"
#include "services/coordinator/metadata/placement/map_plan.h"
#include "services/coordinator/metadata/status.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(250);

// A client works with the session, or is about to.
bool IsOpen(SessionRecord::State state) {
  return state >= SessionRecord::OPENING && state <= SessionRecord::FINISHING;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorCore>> CoordinatorCore::Create(Options options, Store& store,
                                                                         const world::Clock& clock,
                                                                         ShardCaller& caller, Probe& probe,
                                                                         Candidacy candidacy) {
  ABSL_RETURN_IF_ERROR(Validate(options));
  if (options.random == nullptr) {
    return absl::InvalidArgumentError("random: none; expected the source of sessions' secrets");
  }
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Facts> facts,
                        Facts::Load(store, options.ring_bits, options.new_cluster, std::move(candidacy)));
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
      waiters_(context_,
               [this](Subject subject) {
                 // A load continues when its segments are back, and so do the requests that wait.
                 const bool hopeless = subject.kind != Subject::Kind::kLoad && fan_outs_.Hopeless(subject);
                 return hopeless ? membership_.CheckNothingLost() : absl::OkStatus();
               }),
      sessions_(context_, membership_, fan_outs_, waiters_),
      workers_(context_, membership_, sessions_, waiters_),
      tables_(context_, membership_, sessions_),
      work_(context_, sessions_),
      job_changes_(context_, membership_, sessions_, workers_, fan_outs_, waiters_),
      bounds_(context_, sessions_, job_changes_),
      snapshots_(context_, membership_, workers_, fan_outs_, waiters_),
      schedules_(context_, workers_, snapshots_),
      watchers_(context_),
      promotions_(context_, membership_, [this] { FollowMap(); }),
      recoveries_(
          context_, membership_, sessions_, [this] { return schedules_.KeepAll(); },
          [this](bool emptied) {
            if (emptied) OnEmptied();
            FollowMap();
          }),
      configs_(context_, membership_, promotions_),
      loads_(context_, membership_),
      moves_(context_, membership_, promotions_, loads_, waiters_, [this] { FollowMap(); }),
      drains_(context_, membership_, moves_),
      stops_(context_, waiters_, drains_, moves_),
      last_on_time_(context_.now) {
  sessions_.Start([this](const SessionRecord& session) { workers_.OnMoved(session); });
  workers_.HoldJoinsIf(
      [this](uint32_t job) { return job_changes_.HoldsJoins(job) || snapshots_.HoldsJoins(job); });
  job_changes_.Start();
  snapshots_.Start();
  work_.Start();
}

CoordinatorCore::~CoordinatorCore() = default;

Gauges::Gauges() {
  for (int state = SessionRecord::OPENING; state < SessionRecord::CLOSED; ++state) {
    sessions[StateName(static_cast<SessionRecord::State>(state))] = 0;
  }
}

absl::Status CoordinatorCore::CheckServing() const {
  ABSL_RETURN_IF_ERROR(stopped_);
  ABSL_RETURN_IF_ERROR(membership_.store_behind());
  if (!deposed()) return absl::OkStatus();
  return absl::UnavailableError(
      "another coordinator has started on the same store and leads now; ask that one");
}

absl::Status CoordinatorCore::CheckGivesIds() const {
  ABSL_RETURN_IF_ERROR(CheckServing());
  return membership_.CheckMayGiveIds();
}

absl::Status CoordinatorCore::Certain(const absl::Status& answer) const {
  switch (answer.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDataLoss: {
      const absl::Status unsure = CheckGivesIds();
      return unsure.ok() ? answer : unsure;
    }
    default:
      return answer;
  }
}

void CoordinatorCore::FollowMap() {
  if (facts_->map_version() == followed_map_) return;
  followed_map_ = facts_->map_version();
  watchers_.Notify();
  membership_.Pump();
  promotions_.Pump();
  recoveries_.Pump();
  moves_.Pump();
  sessions_.OnMap();
  fan_outs_.Pump();
}

void CoordinatorCore::OnEmptied() {
  snapshots_.OnEmptied();
  job_changes_.Start();
}

// -- shards --

absl::StatusOr<v1::JoinClusterReply> CoordinatorCore::JoinCluster(const v1::JoinClusterRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  const std::shared_ptr<const v1::Map> before = facts_->map();
  absl::StatusOr<v1::JoinClusterReply> reply = membership_.Join(request);
  if (before != nullptr && EmptiedSum(*facts_->map()) != EmptiedSum(*before)) OnEmptied();
  FollowMap();
  return reply;
}

absl::StatusOr<v1::BeatReply> CoordinatorCore::Beat(const v1::BeatRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  ABSL_ASSIGN_OR_RETURN(v1::BeatReply reply, membership_.Beat(request));
  workers_.OnBeat(request);
  moves_.OnBeat(request);
  loads_.OnBeat(request);
  FollowMap();
  promotions_.Pump();
  return reply;
}

absl::StatusOr<v1::ChangeConfigsReply> CoordinatorCore::ChangeConfigs(
    const v1::ChangeConfigsRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  absl::StatusOr<v1::ChangeConfigsReply> reply = configs_.Change(request);
  FollowMap();
  promotions_.Pump();
  return reply;
}

// -- planned moves --

Ticket CoordinatorCore::HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                                      Done<v1::HandOverShardReply> done) {
  const Visit visit(context_);
  return Ask(CheckServing(), request, deadline, done,
             [&](absl::Time until) { return moves_.HandOverShard(request, until, done); });
}

absl::StatusOr<v1::DrainShardsReply> CoordinatorCore::DrainShards(const v1::DrainShardsRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  ABSL_RETURN_IF_ERROR(membership_.CheckMayGiveIds());  // a store that is behind may not know the shards
  ABSL_ASSIGN_OR_RETURN(v1::DrainShardsReply reply, drains_.Drain(request));
  moves_.Pump();
  return reply;
}

Ticket CoordinatorCore::StopShard(const v1::StopShardRequest& request, absl::Time deadline,
                                  Done<v1::StopShardReply> done) {
  const Visit visit(context_);
  const absl::Status unfit = CheckServing().ok() ? membership_.CheckMayGiveIds() : CheckServing();
  return Ask(unfit, request, deadline, done,
             [&](absl::Time until) { return stops_.Stop(request, until, done); });
}

absl::StatusOr<v1::RemoveShardReply> CoordinatorCore::RemoveShard(const v1::RemoveShardRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  absl::StatusOr<v1::RemoveShardReply> reply = membership_.Remove(request);
  FollowMap();
  return reply;
}

absl::StatusOr<v1::RecoverSegmentsReply> CoordinatorCore::RecoverSegments(
    const v1::RecoverSegmentsRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  return recoveries_.Recover(request);
}

// -- everyone --

absl::StatusOr<WatchId> CoordinatorCore::WatchMap(uint64_t known_version, OnMapFunction on_map,
                                                  bool takes_deltas) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  return watchers_.Add(known_version, takes_deltas, std::move(on_map));
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
  v1::StatusReply reply =
      StatusOf(context_, membership_, sessions_, fan_outs_, workers_, job_changes_, moves_, drains_);
  for (const std::string& problem : stops_.Problems()) reply.add_problems(problem);
  loads_.AddTo(reply);
  for (v1::JobStatus& job : *reply.mutable_jobs()) {
    for (v1::WorkStatus& queue : work_.Of(job.job())) *job.add_work() = std::move(queue);
  }
  reply.set_takeovers(promotions_.takeovers());
  reply.set_handovers(configs_.hand_overs());
  reply.set_segments_recovering(static_cast<uint32_t>(membership_.to_recover().size()));
  return reply;
}

// -- jobs --

absl::StatusOr<v1::KeepAliveReply> CoordinatorCore::KeepAlive(const v1::KeepAliveRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  absl::StatusOr<v1::KeepAliveReply> reply = sessions_.KeepAlive(request);
  if (!reply.ok()) return Certain(reply.status());
  return reply;
}

absl::StatusOr<v1::OpenTableReply> CoordinatorCore::OpenTable(const v1::OpenTableRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(request.create() ? CheckGivesIds() : CheckServing());
  absl::StatusOr<v1::OpenTableReply> reply = tables_.Open(request);
  if (!reply.ok()) return Certain(reply.status());
  return reply;
}

Ticket CoordinatorCore::DeleteJob(const v1::DeleteJobRequest& request, absl::Time deadline,
                                  Done<v1::DeleteJobReply> done) {
  const Visit visit(context_);
  const auto certain = Certain(done);
  return Ask(CheckServing(), request, deadline, certain, [&](absl::Time until) -> absl::StatusOr<Ticket> {
    ABSL_ASSIGN_OR_RETURN(const uint32_t job, job_changes_.Meant(request));
    const JobRecord* record = facts_->FindJob(job);
    if (record != nullptr && record->has_load()) {
      ABSL_RETURN_IF_ERROR(snapshots_.GiveUpLoad(job, "given up: the job was deleted", request.nonce()));
      return waiters_.Tell(done, {v1::DeleteJobReply()});
    }
    return job_changes_.DeleteJob(job, request, until, certain);
  });
}

// An older copy of the store would hand out again what is done.
absl::StatusOr<v1::OpenWorkReply> CoordinatorCore::OpenWork(const v1::OpenWorkRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckGivesIds());
  return work_.Open(request);
}

absl::StatusOr<v1::ReportWorkReply> CoordinatorCore::ReportWork(const v1::ReportWorkRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckGivesIds());
  return work_.Report(request);
}

Ticket CoordinatorCore::CreateSnapshot(const v1::CreateSnapshotRequest& request, absl::Time deadline,
                                       Done<v1::CreateSnapshotReply> done) {
  const Visit visit(context_);
  return Ask(CheckGivesIds(), request, deadline, done,
             [&](absl::Time until) { return snapshots_.Create(request, until, done); });
}

Ticket CoordinatorCore::ListSnapshots(const v1::ListSnapshotsRequest& request, absl::Time deadline,
                                      Done<v1::ListSnapshotsReply> done) {
  const Visit visit(context_);
  const Done<v1::ListSnapshotsReply> with_schedules = [this, job = request.job(),
                                                       done](absl::StatusOr<v1::ListSnapshotsReply> reply) {
    if (!reply.ok()) return done(std::move(reply));
    for (auto& schedule : schedules_.List(job)) *reply->add_schedules() = schedule;
    done(std::move(reply));
  };
  return Ask(CheckServing(), request, deadline, done,
             [&](absl::Time until) { return snapshots_.List(request, until, with_schedules); });
}

absl::StatusOr<v1::ScheduleSnapshotsReply> CoordinatorCore::ScheduleSnapshots(
    const v1::ScheduleSnapshotsRequest& request) {
  const Visit visit(context_);
  ABSL_RETURN_IF_ERROR(CheckServing());
  absl::StatusOr<v1::ScheduleSnapshotsReply> reply = schedules_.Set(request);
  if (!reply.ok()) return Certain(reply.status());
  return reply;
}

void CoordinatorCore::Abandon(Ticket ticket) {
  const Visit visit(context_);
  waiters_.Abandon(ticket);
}

// -- events --

void CoordinatorCore::OnNamedEverywhere(Subject subject) {
  if (subject.kind == Subject::Kind::kCut || subject.kind == Subject::Kind::kLoad) {
    snapshots_.OnNamedEverywhere(subject);
    return job_changes_.PumpDeletions();
  }
  if (subject.kind != Subject::Kind::kSession) return job_changes_.OnNamedEverywhere(subject);
  const SessionRecord* record = facts_->FindSession(subject.id);
  if (record == nullptr) return;
  if (record->state() == SessionRecord::JOINING) {
    workers_.OnJoinedEverywhere(*record);
  } else {
    sessions_.OnNamedEverywhere(*record);
    job_changes_.PumpDeletions();
  }
}

void CoordinatorCore::OnClockPassed(const v1::Change& change, uint32_t segment, uint64_t clock) {
  if (change.has_join()) {
    return workers_.OnJoinRefused(change.subject().id(), change.job(), segment, clock);
  }
  change.has_cut() ? snapshots_.OnClockPassed(change, clock) : job_changes_.OnClockPassed(change, clock);
}

void CoordinatorCore::OnReply(const v1::Change& change, const v1::ChangeReply& reply) {
  if (!change.has_cut() && !change.has_load()) return;
  snapshots_.OnReply(change, reply);
  job_changes_.PumpDeletions();
}

void CoordinatorCore::OnLate(Subject subject) {
  if (subject.kind == Subject::Kind::kSession) {
    const SessionRecord* session = facts_->FindSession(subject.id);
    if (session != nullptr) sessions_.OnLate(*session);
  } else if (subject.kind == Subject::Kind::kTable || subject.kind == Subject::Kind::kJob) {
    job_changes_.OnLate(subject);
  } else {
    snapshots_.OnLate(subject);
  }
}

void CoordinatorCore::OnTime() {
  const Visit visit(context_);
  const absl::Duration gap = context_.now - last_on_time_;
  last_on_time_ = context_.now;
  if (!stopped_.ok()) return;
  if (!CheckServing().ok()) return StopAll();
  if (gap > context_.options.pause) {
    context_.probe.Paused(gap);
    membership_.ListenAfresh();
    sessions_.ListenAfresh();
    promotions_.ListenAfresh();
  }
  membership_.Pump();
  FollowMap();
  promotions_.Pump();
  recoveries_.Pump();
  moves_.Pump();
  if (drains_.Pump()) FollowMap();
  fan_outs_.Pump();
  workers_.OnTime();
  waiters_.OnTime();
  sessions_.OnTime();
  job_changes_.PumpDeletions();
  snapshots_.OnTime();
  if (!CheckGivesIds().ok()) return;
  schedules_.OnTime();
  stops_.OnTime();
  work_.OnTime();
  bounds_.OnTime();
}

absl::Time CoordinatorCore::NextDeadline() const {
  if (!stopped_.ok()) return absl::InfiniteFuture();
  if (deposed() || !membership_.store_behind().ok()) return last_on_time_ + kTick;
  return std::min({last_on_time_ + kTick, waiters_.NextDeadline(), snapshots_.NextTry(), fan_outs_.NextTry(),
                   membership_.NextTry(), promotions_.NextTry(), recoveries_.NextTry(), moves_.NextTry()});
}

absl::Status CoordinatorCore::ConfirmLead(const std::string& address) {
  const absl::Status status = facts_->ConfirmLead(address);
  if (!status.ok()) context_.probe.StoreFailed(status);
  return status;
}

void CoordinatorCore::Stop(absl::Status why) {
  const Visit visit(context_);
  stopped_ = std::move(why);
  StopAll();
}

void CoordinatorCore::StopAll() {
  fan_outs_.StopAll();
  promotions_.StopAll();
  recoveries_.StopAll();
  snapshots_.StopAll();
  moves_.StopAll();
  waiters_.AnswerEverything(CheckServing());
}

Gauges CoordinatorCore::gauges() {
  context_.now = context_.clock.Now();
  Gauges gauges;
  std::set<uint32_t> active;
  for (const auto& [id, session] : facts_->sessions()) {
    if (session.state() != SessionRecord::CLOSED) gauges.sessions[StateName(session.state())] += 1;
    if (IsOpen(session.state())) active.insert(session.job());
    if (session.state() != SessionRecord::WORKER) continue;
    const JobRecord* job = facts_->FindJob(session.job());
    if (job != nullptr)
      gauges.workers.push_back({job->id(), job->name(), session.rank(), sessions_.ToldBy(id)});
  }
  gauges.leads = !deposed();
  gauges.shards = facts_->shards().size();
  gauges.shards_alive = membership_.AliveCount();
  for (const auto& [shard, segments] : membership_.lost()) gauges.segments_lost += segments.size();
  gauges.segments_under_replicated = moves_.UnderReplicated().size();
  gauges.shards_draining = drains_.size();
  for (const auto& [id, shard] : facts_->shards()) {
    gauges.each_shard.push_back({shard.info().name(), membership_.Alive(id), shard.draining()});
  }
  for (const uint32_t id : active) {
    if (const JobRecord* job = facts_->FindJob(id)) gauges.active_jobs.push_back({id, job->name()});
  }
  v1::StatusReply problems;  // and nothing else of the status, which has rows for all sessions
  AddProblems(context_, membership_, fan_outs_, workers_, job_changes_, moves_, drains_, problems);
  gauges.problems = static_cast<size_t>(problems.problems_size()) + stops_.Problems().size();
  gauges.moves = moves_.Status().value_or(v1::MoveStatus());
  gauges.load = loads_.Status();
  gauges.jobs = facts_->jobs().size();
  gauges.tables = facts_->tables().size();
  gauges.requests_waiting = waiters_.size();
  gauges.watchers = watchers_.size();
  gauges.map_version = facts_->map_version();
  gauges.catalogue_version = facts_->counters().catalogue_version();
  gauges.term = facts_->term();
  gauges.takeovers = promotions_.takeovers();
  gauges.handovers = configs_.hand_overs();
  gauges.snapshots_taken = snapshots_.counters().taken;
  gauges.snapshots_failed = snapshots_.counters().failed;
  gauges.snapshots_loaded = snapshots_.counters().loaded;
  gauges.snapshot_schedules = schedules_.gauges();
  gauges.work = work_.gauges();
  gauges.bounds = bounds_.gauges();
  return gauges;
}

}  // namespace paceline::coordinator
