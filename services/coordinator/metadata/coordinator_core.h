#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/configs.h"
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/fan_out.h"
#include "services/coordinator/metadata/job_changes.h"
#include "services/coordinator/metadata/map_watchers.h"
#include "services/coordinator/metadata/membership.h"
#include "services/coordinator/metadata/moves.h"
#include "services/coordinator/metadata/options.h"
#include "services/coordinator/metadata/probe.h"
#include "services/coordinator/metadata/promotions.h"
#include "services/coordinator/metadata/recoveries.h"
#include "services/coordinator/metadata/sessions.h"
#include "services/coordinator/metadata/shard_caller.h"
#include "services/coordinator/metadata/snapshot_schedules.h"
#include "services/coordinator/metadata/snapshots.h"
#include "services/coordinator/metadata/tables.h"
#include "services/coordinator/metadata/workers.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// How the coordinator is, in numbers.
struct Gauges {
  Gauges();
  std::map<std::string, size_t> sessions;  // by state, as StatusReply names it; every state is there
  bool leads = false;                      // the rest is 0 if it does not, but for the term
  size_t shards = 0;
  size_t shards_alive = 0;
  size_t segments_lost = 0;
  size_t segments_under_replicated = 0;
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
};

// The coordinator's decisions: membership, the map, tables and sessions of a cluster. It does no I/O but
// through what is passed in, starts no threads and knows no time of its own, so that the simulator runs it
// whole.
//
// All it must know again after a restart is in the store before anybody is told: a new one made from the same
// store goes on where this one ended, and takes up every intent it finds (sessions opening, joining,
// finishing, closing; tables dropped, their rates changed; jobs deleted). Only the newest one made on a store
// can change it.
//
// Calls must not overlap: the caller holds one lock, or has one thread. They block on the store and on
// nothing else. Functions passed in may call back at once.
//
// A request that may have to wait takes an absolute deadline, on `clock`, beside the timeout it states
// itself; the earlier one counts, and if it states none Options::request_timeout does. `done` runs exactly
// once: within the call or a later one, and with UNAVAILABLE at Stop() — unless the coordinator is destroyed
// without Stop(). A deadline ends the wait, not the intent; the error names whom was waited for and why. All
// requests are idempotent and may be repeated, to the next coordinator too.
//
// Errors every call may return, beside those of coordinator.proto's sense: UNAVAILABLE (the store failed, or
// another coordinator leads: try again), RESOURCE_EXHAUSTED (a limit of Options, which is named), DATA_LOSS
// (a shard was started again and with it the only copy of some segments is gone).
class CoordinatorCore final : private FanOuts::Listener {
 public:
  // Reads the store and becomes its leader. Fails as Facts::Load does, or naming a wrong option. What is
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
  // Makes `shard` primary of `segment` in the segment's next epoch, and returns the map that says so. The
  // data does not follow by itself: whoever asks for the move hands the segment's state over (services/shard,
  // Shard::ReleaseSegment and AdoptSegment) before the map can reach the two shards.
  absl::StatusOr<v1::Map> MoveSegment(uint32_t segment, uint32_t shard);

  Ticket HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                       Done<v1::HandOverShardReply> done);

  // Forgets a shard; to be repeated while it says kAborted. See Membership::Remove.
  absl::StatusOr<v1::RemoveShardReply> RemoveShard(const v1::RemoveShardRequest& request);

  // Which segments wait for shards that have ended, and what is accepted to be lost: see Recoveries.
  absl::StatusOr<v1::RecoverSegmentsReply> RecoverSegments(const v1::RecoverSegmentsRequest& request);

  // -- everyone --
  // `on_map` takes the newest map, unless it is `known_version`, and every later one, until Unwatch.
  absl::StatusOr<WatchId> WatchMap(uint64_t known_version, OnMapFunction on_map);
  void Unwatch(WatchId id);
  absl::StatusOr<v1::Catalogue> GetCatalogue();
  v1::StatusReply Status();

  // -- jobs --
  // The tickets may be given to Abandon.
  Ticket OpenSession(const v1::OpenSessionRequest& request, absl::Time deadline,
                     Done<v1::OpenSessionReply> done);
  Ticket JoinJob(const v1::JoinJobRequest& request, absl::Time deadline, Done<v1::JoinJobReply> done);
  Ticket FinishWorker(const v1::FinishWorkerRequest& request, absl::Time deadline,
                      Done<v1::FinishWorkerReply> done);
  Ticket CloseSession(const v1::CloseSessionRequest& request, absl::Time deadline,
                      Done<v1::CloseSessionReply> done);
  absl::StatusOr<v1::KeepAliveReply> KeepAlive(const v1::KeepAliveRequest& request);
  absl::StatusOr<v1::OpenTableReply> OpenTable(const v1::OpenTableRequest& request);
  Ticket DropTable(const v1::DropTableRequest& request, absl::Time deadline, Done<v1::DropTableReply> done);
  Ticket ChangeRule(const v1::ChangeRuleRequest& request, absl::Time deadline,
                    Done<v1::ChangeRuleReply> done);
  Ticket DeleteJob(const v1::DeleteJobRequest& request, absl::Time deadline, Done<v1::DeleteJobReply> done);

  // -- job snapshots --
  Ticket CreateSnapshot(const v1::CreateSnapshotRequest& request, absl::Time deadline,
                        Done<v1::CreateSnapshotReply> done);
  Ticket ListSnapshots(const v1::ListSnapshotsRequest& request, absl::Time deadline,
                       Done<v1::ListSnapshotsReply> done);
  Ticket DeleteSnapshot(const v1::DeleteSnapshotRequest& request, absl::Time deadline,
                        Done<v1::DeleteSnapshotReply> done);
  Ticket RestoreSnapshot(const v1::RestoreSnapshotRequest& request, absl::Time deadline,
                         Done<v1::RestoreSnapshotReply> done);
  absl::StatusOr<v1::ScheduleSnapshotsReply> ScheduleSnapshots(const v1::ScheduleSnapshotsRequest& request);

  // The client has gone: its request no longer counts as a sign of life, and is answered CANCELLED. Nothing
  // happens if it has been answered before.
  void Abandon(Ticket ticket);

  // -- time --
  // Lets time pass: sends what is due, ends waits, evicts who was silent. Call at NextDeadline() or a little
  // later. When it was not called for Options::pause the coordinator takes it that it was not running, and
  // counts nobody's silence meanwhile.
  void OnTime();
  // When OnTime is to be called next: at most a quarter of a second after the last time.
  absl::Time NextDeadline() const;

  // Answers everything that waits, and all that comes later, `why`, which is UNAVAILABLE. Intents stay in the
  // store.
  void Stop(
      absl::Status why = absl::UnavailableError("the coordinator is stopping; try again when it is back"));

  // -- where several coordinators share the store; see Candidate --
  // Tells the others that this one leads, at `address`; that it does not.
  absl::Status ConfirmLead(const std::string& address);
  absl::Status Resign() { return facts_->Resign(); }
  uint64_t term() const { return facts_->term(); }
  // Another coordinator has started on the store; this one is of no more use.
  bool deposed() const { return facts_->deposed(); }
  Gauges gauges();

 private:
  CoordinatorCore(Options options, std::unique_ptr<Facts> facts, const world::Clock& clock,
                  ShardCaller& caller, Probe& probe);
  void OnNamedEverywhere(Subject subject) override;
  void OnJoinRefused(uint64_t session, uint32_t job, uint32_t segment, uint64_t min_clock) override;
  void OnClockPassed(const v1::JobChange& change, uint32_t segment, uint64_t clock) override;
  void OnJobReply(const v1::JobChange& change, const v1::JobChangeReply& reply) override;
  // OK if requests can be served.
  absl::Status CheckServing() const;
  // The same, for a call of this session: nobody is told that it never was while the store may be an older
  // copy.
  absl::Status CheckServing(uint64_t session) const;
  // OK if they can, and those that take a new number.
  absl::Status CheckGivesIds() const;
  // What follows from a new map.
  void FollowMap();
  // What was under way when segments began empty: they were not told of it.
  void OnEmptied();

  std::unique_ptr<Facts> facts_;
  Context context_;
  Membership membership_;
  FanOuts fan_outs_;
  Sessions sessions_;
  Workers workers_;
  Tables tables_;
  JobChanges job_changes_;
  Snapshots snapshots_;
  SnapshotSchedules schedules_;
  MapWatchers watchers_;
  Promotions promotions_;
  Recoveries recoveries_;
  Configs configs_;
  Moves moves_;
  uint64_t followed_map_ = 0;
  absl::Time last_on_time_;
  absl::Status stopped_;  // what all are told from then on; OK: it runs
};

}  // namespace paceline::coordinator
