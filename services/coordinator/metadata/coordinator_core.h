#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/fan_out.h"
#include "services/coordinator/metadata/changes/shard_caller.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/facts/options.h"
#include "services/coordinator/metadata/facts/probe.h"
#include "services/coordinator/metadata/jobs/bounds.h"
#include "services/coordinator/metadata/jobs/job_changes.h"
#include "services/coordinator/metadata/jobs/tables.h"
#include "services/coordinator/metadata/leadership/map_watchers.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/configs.h"
#include "services/coordinator/metadata/placement/drains.h"
#include "services/coordinator/metadata/placement/loads.h"
#include "services/coordinator/metadata/placement/moves.h"
#include "services/coordinator/metadata/placement/promotions.h"
#include "services/coordinator/metadata/placement/recoveries.h"
#include "services/coordinator/metadata/placement/stops.h"
#include "services/coordinator/metadata/sessions/sessions.h"
#include "services/coordinator/metadata/sessions/workers.h"
#include "services/coordinator/metadata/snapshots/snapshot_schedules.h"
#include "services/coordinator/metadata/snapshots/snapshots.h"
#include "services/coordinator/metadata/work/work_queues.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// The requests about tables and jobs that wait and that the core only hands on, as the function of that name
// of JobChanges takes them.
// clang-format off
#define PACELINE_CALLS_OF_JOBS(CALL) CALL(DropTable) CALL(ChangeRule)
// clang-format on

// The state of the coordinator in numbers.
struct Gauges {
  Gauges();
  std::map<std::string, size_t> sessions;  // by state, named as in StatusReply; has every state
  bool leads = false;                      // if false all others are 0, except the term
  size_t shards = 0;
  size_t shards_alive = 0;
  size_t segments_lost = 0;
  size_t segments_under_replicated = 0;
  size_t shards_draining = 0;
  struct Shard {
    std::string name;
    bool alive = false;
    bool draining = false;
  };
  std::vector<Shard> each_shard;
  struct Job {
    uint32_t id = 0;
    std::string name;
  };
  std::vector<Job> active_jobs;  // of which a client has an open session
  size_t problems = 0;           // as many as Status() names
  v1::MoveStatus moves;          // empty: nothing moves
  v1::LoadStatus load;
  size_t jobs = 0;
  size_t tables = 0;
  size_t requests_waiting = 0;
  size_t watchers = 0;
  uint64_t map_version = 0;
  uint64_t catalogue_version = 0;
  uint64_t term = 0;
  uint64_t takeovers = 0;  // segments, since this coordinator started
  uint64_t handovers = 0;
  uint64_t snapshots_taken = 0;  // … as are these
  uint64_t snapshots_failed = 0;
  uint64_t snapshots_loaded = 0;
  std::vector<SnapshotSchedules::Gauge> snapshot_schedules;
  struct Worker {
    uint32_t job = 0;
    std::string name;  // the job's
    uint32_t rank = 0;
    Sessions::Told told;
  };
  std::vector<Worker> workers;  // at work
  std::vector<WorkQueues::Gauge> work;
  std::vector<Bounds::Gauge> bounds;
};

// The coordinator's decisions: membership, the map, tables and sessions of a cluster. It does I/O only
// through the objects passed in, starts no threads and reads no clock of its own, so the simulator runs all
// of it.
//
// Everything that it must know after a restart is in the store before anybody is told. A new core made from
// the same store continues where this one ended, and takes up every intent that it finds (sessions opening,
// joining, finishing, closing; tables being dropped, rates being changed; jobs being deleted). Only the
// newest core made on a store can change it.
//
// Calls must not overlap: the caller holds one lock, or has one thread. They block on the store and on
// nothing else. Functions passed in may call back at once.
//
// A request that may have to wait takes an absolute deadline on `clock`, besides the timeout that the request
// states. The earlier one counts; if it states none, Options::request_timeout does. `done` runs exactly once:
// within the call or a later one, at the latest in Stop(), with UNAVAILABLE; it does not run if the
// coordinator is destroyed without Stop(). A deadline ends the wait, not the intent; the error names whom the
// request waited for and why. All requests are idempotent and may be repeated, also to the next coordinator.
//
// Errors of every call, besides those that coordinator.proto describes: UNAVAILABLE (the store failed, or
// another coordinator leads: try again), RESOURCE_EXHAUSTED (names the limit of Options), DATA_LOSS (a shard
// was started again, and the only copy of some segments is gone).
//
// More than 15 members: it owns every part of the coordinator, one member each, in the order in which they
// need each other.
class CoordinatorCore final : private FanOuts::Listener {
 public:
  // Reads the store and becomes its leader. Fails as Facts::Load does, or naming a wrong option. The objects
  // passed by reference must outlive the coordinator. May call `caller` before it returns.
  static absl::StatusOr<std::unique_ptr<CoordinatorCore>> Create(Options options, Store& store,
                                                                 const world::Clock& clock,
                                                                 ShardCaller& caller, Probe& probe,
                                                                 Candidacy candidacy = {});
  ~CoordinatorCore() override;

  // -- shards --
  absl::StatusOr<v1::JoinClusterReply> JoinCluster(const v1::JoinClusterRequest& request);
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& request);

  absl::StatusOr<v1::ChangeConfigsReply> ChangeConfigs(const v1::ChangeConfigsRequest& request);

  // -- planned moves --
  Ticket HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                       Done<v1::HandOverShardReply> done);

  // Moves everything away from shards. See Drains.
  absl::StatusOr<v1::DrainShardsReply> DrainShards(const v1::DrainShardsRequest& request);

  // What a shard whose pod is to stop has to do. See Stops.
  Ticket StopShard(const v1::StopShardRequest& request, absl::Time deadline, Done<v1::StopShardReply> done);

  // Forgets a shard. Repeat the call while it returns kAborted. See Membership::Remove.
  absl::StatusOr<v1::RemoveShardReply> RemoveShard(const v1::RemoveShardRequest& request);

  // The segments that wait for shards that have ended; accepts the loss of their data. See Recoveries.
  absl::StatusOr<v1::RecoverSegmentsReply> RecoverSegments(const v1::RecoverSegmentsRequest& request);

  // -- everyone --
  // `on_map` is given the newest map, unless that is `known_version`, and every later one, until Unwatch.
  absl::StatusOr<WatchId> WatchMap(uint64_t known_version, OnMapFunction on_map, bool takes_deltas = false);
  void Unwatch(WatchId id);
  absl::StatusOr<v1::Catalogue> GetCatalogue();
  v1::StatusReply Status();

  // -- jobs --
  // Pass a ticket to Abandon to give the request up.
  Ticket OpenSession(const v1::OpenSessionRequest& request, absl::Time deadline,
                     const Done<v1::OpenSessionReply>& done) {
    return HandOn(&CoordinatorCore::CheckGivesIds, sessions_, &Sessions::Open, request, deadline, done);
  }
  Ticket JoinJob(const v1::JoinJobRequest& request, absl::Time deadline, const Done<v1::JoinJobReply>& done) {
    return HandOn(&CoordinatorCore::CheckServing, workers_, &Workers::Join, request, deadline, Certain(done));
  }
  Ticket FinishWorker(const v1::FinishWorkerRequest& request, absl::Time deadline,
                      const Done<v1::FinishWorkerReply>& done) {
    return HandOn(&CoordinatorCore::CheckServing, workers_, &Workers::Finish, request, deadline,
                  Certain(done));
  }
  Ticket CloseSession(const v1::CloseSessionRequest& request, absl::Time deadline,
                      const Done<v1::CloseSessionReply>& done) {
    return HandOn(&CoordinatorCore::CheckServing, sessions_, &Sessions::Close, request, deadline,
                  Certain(done));
  }
  absl::StatusOr<v1::KeepAliveReply> KeepAlive(const v1::KeepAliveRequest& request);
  absl::StatusOr<v1::OpenTableReply> OpenTable(const v1::OpenTableRequest& request);
  Ticket DeleteJob(const v1::DeleteJobRequest& request, absl::Time deadline, Done<v1::DeleteJobReply> done);

  // -- work queues --
  absl::StatusOr<v1::OpenWorkReply> OpenWork(const v1::OpenWorkRequest& request);
  absl::StatusOr<v1::ReportWorkReply> ReportWork(const v1::ReportWorkRequest& request);

  // -- job snapshots --
  Ticket CreateSnapshot(const v1::CreateSnapshotRequest& request, absl::Time deadline,
                        Done<v1::CreateSnapshotReply> done);
  Ticket ListSnapshots(const v1::ListSnapshotsRequest& request, absl::Time deadline,
                       Done<v1::ListSnapshotsReply> done);
  Ticket DeleteSnapshot(const v1::DeleteSnapshotRequest& request, absl::Time deadline,
                        const Done<v1::DeleteSnapshotReply>& done) {
    return HandOn(&CoordinatorCore::CheckServing, snapshots_, &Snapshots::Delete, request, deadline,
                  Certain(done));
  }
  Ticket RestoreSnapshot(const v1::RestoreSnapshotRequest& request, absl::Time deadline,
                         const Done<v1::RestoreSnapshotReply>& done) {
    return HandOn(&CoordinatorCore::CheckGivesIds, snapshots_, &Snapshots::Restore, request, deadline, done);
  }
  absl::StatusOr<v1::ScheduleSnapshotsReply> ScheduleSnapshots(const v1::ScheduleSnapshotsRequest& request);

  // The client has gone: its request no longer counts as a sign of life, and is answered CANCELLED. Does
  // nothing if the request was answered already.
  void Abandon(Ticket ticket);

  // -- time --
  // Does the work that is due: sends calls, ends waits, evicts silent sessions. Call at NextDeadline() or a
  // little later. If it was not called for Options::pause the coordinator assumes that it was not running,
  // and counts no silence from that time.
  void OnTime();
  // When to call OnTime next: at most a quarter of a second after the last call.
  absl::Time NextDeadline() const;

  // Answers all waiting and all later requests with `why`, which is UNAVAILABLE. Intents stay in the store.
  void Stop(
      absl::Status why = absl::UnavailableError("the coordinator is stopping; try again when it is back"));

  // -- where several coordinators share the store; see Candidate --
  // Tells the other coordinators that this one leads, at `address`; or, with Resign, that it does not.
  absl::Status ConfirmLead(const std::string& address);
  absl::Status Resign() { return facts_->Resign(); }
  uint64_t term() const { return facts_->term(); }
  // True once another coordinator has started on the store: this one can change nothing any more.
  bool deposed() const { return facts_->deposed(); }
  Gauges gauges();

  // -- what JobChanges answers (coordinator.proto) --
#define CALL(Name)                                                                                    \
  Ticket Name(const v1::Name##Request& request, absl::Time deadline, Done<v1::Name##Reply> done) {    \
    return HandOn(&CoordinatorCore::CheckServing, job_changes_, &JobChanges::Name, request, deadline, \
                  Certain(done));                                                                     \
  }
  PACELINE_CALLS_OF_JOBS(CALL)
#undef CALL

 private:
  CoordinatorCore(Options options, std::unique_ptr<Facts> facts, const world::Clock& clock,
                  ShardCaller& caller, Probe& probe);
  void OnNamedEverywhere(Subject subject) override;
  void OnClockPassed(const v1::Change& change, uint32_t segment, uint64_t clock) override;
  void OnReply(const v1::Change& change, const v1::ChangeReply& reply) override;
  void OnLate(Subject subject) override;
  // Begins a request that may wait, by `begin(deadline)`, unless `refused`; tells it the error if there is
  // one.
  template <class Request, class Reply, class Begin>
  Ticket Ask(const absl::Status& refused, const Request& request, absl::Time deadline,
             const Done<Reply>& done, Begin begin);
  // The same for a request that one part answers alone; `check` says whether it is refused.
  template <class Part, class Request, class Reply>
  Ticket HandOn(absl::Status (CoordinatorCore::*check)() const, Part& part,
                absl::StatusOr<Ticket> (Part::*begin)(const Request&, absl::Time, const Done<Reply>&),
                const Request& request, absl::Time deadline, const Done<Reply>& done) {
    const Visit visit(context_);
    return Ask((this->*check)(), request, deadline, done,
               [&](absl::Time until) { return (part.*begin)(request, until, done); });
  }
  // Ends all work under way, and answers all waiting requests.
  void StopAll();
  // OK if requests can be served.
  absl::Status CheckServing() const;
  // OK if requests that need a new number can be served.
  absl::Status CheckGivesIds() const;
  // `answer`; or, while the store may be an older copy, in which a session or table is missing, or not as
  // far as it came, kUnavailable in place of a refusal that follows from that.
  absl::Status Certain(const absl::Status& answer) const;
  template <class Reply>
  Done<Reply> Certain(Done<Reply> done) const {
    return [this, done = std::move(done)](absl::StatusOr<Reply> reply) {
      if (reply.ok()) return done(std::move(reply));
      done(Certain(reply.status()));
    };
  }
  // Acts on a new map.
  void FollowMap();
  // Segments have begun empty: they know nothing of the intents under way, which start again.
  void OnEmptied();

  std::unique_ptr<Facts> facts_;
  Context context_;
  Membership membership_;
  FanOuts fan_outs_;
  Waiters waiters_;
  Sessions sessions_;
  Workers workers_;
  Tables tables_;
  WorkQueues work_;
  JobChanges job_changes_;
  Bounds bounds_;
  Snapshots snapshots_;
  SnapshotSchedules schedules_;
  MapWatchers watchers_;
  Promotions promotions_;
  Recoveries recoveries_;
  Configs configs_;
  Loads loads_;
  Moves moves_;
  Drains drains_;
  Stops stops_;
  uint64_t followed_map_ = 0;
  absl::Time last_on_time_;
  absl::Status stopped_;  // the answer to all requests after Stop; OK: it runs
};

// -- details --

template <class Request, class Reply, class Begin>
Ticket CoordinatorCore::Ask(const absl::Status& refused, const Request& request, absl::Time deadline,
                            const Done<Reply>& done, Begin begin) {
  if (!refused.ok()) return waiters_.Tell(done, {refused});
  const absl::StatusOr<Ticket> ticket = begin(waiters_.DeadlineOf(deadline, request.timeout_ms()));
  return ticket.ok() ? *ticket : waiters_.Tell(done, {ticket.status()});
}

}  // namespace paceline::coordinator
