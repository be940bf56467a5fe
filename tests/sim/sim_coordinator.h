#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sdk/cpp/src/session/coordinator_api.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/store/memory_store.h"
#include "services/shard/shard.h"
#include "tests/sim/drifting_clock.h"
#include "tests/sim/sim_snapshots.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A store whose next commit may fail.
class FailingStore final : public coordinator::Store {
 public:
  enum class Failure {
    kNone,
    kBefore,
    kAfter
  };  // the commit has no effect, or it takes effect and the caller gets an error

  // `committed` is called for every write that took effect, whatever the caller was told.
  using Committed = std::function<void(absl::Span<const coordinator::Write>)>;

  FailingStore(std::unique_ptr<coordinator::MemoryStore> store, Committed committed)
      : store_(std::move(store)), committed_(std::move(committed)) {}
  absl::StatusOr<std::optional<coordinator::Entry>> Get(absl::string_view key) const override {
    return store_->Get(key);
  }
  absl::StatusOr<std::vector<std::pair<std::string, coordinator::Entry>>> List(
      absl::string_view prefix) const override {
    return store_->List(prefix);
  }
  absl::Status Commit(absl::Span<const coordinator::Condition> conditions,
                      absl::Span<const coordinator::Write> writes) override;

  Failure next = Failure::kNone;
  uint64_t failed = 0;
  bool in_doubt = false;  // the author does not know of the write that `committed` sees now

 private:
  std::unique_ptr<coordinator::MemoryStore> store_;
  const Committed committed_;
};

// A coordinator's process: the real core on a store in memory. It may die at any step and come back from its
// store.
class SimCoordinator final : private coordinator::ShardCaller, private coordinator::Probe {
 public:
  // `share`: the directory of snapshots; nullptr: none.
  SimCoordinator(World& world, coordinator::Options options, SnapshotShare* share = nullptr);
  ~SimCoordinator() override;

  void AddShard(const std::string& address, shard::Shard& shard, Host& host) {
    shards_[address] = {&shard, &host};
  }
  void Start();
  // As by SIGKILL.
  void Kill();
  // As by SIGTERM.
  void Terminate();
  DriftingClock& clock() { return clock_; }
  // As Start, but from an older copy of the store, from before one of the last starts, whose map is older
  // than `map_version`. False: there is none.
  bool StartAged(uint64_t map_version);
  bool aged() const { return newest_ != nullptr; }
  // REQUIRES: it is down, after StartAged. Puts the newest store back.
  void BringStoreBack();

  // nullptr: it is down.
  coordinator::CoordinatorCore* core() { return core_.get(); }
  Host& host() { return host_; }
  // nullptr: it is down.
  FailingStore* store() { return store_.get(); }
  // Runs `visit` if the core is up, and schedules the work that it leaves for later.
  void Visit(const std::function<void(coordinator::CoordinatorCore&)>& visit);
  uint64_t starts() const { return starts_; }
  // The newest job of this name, as Status tells it; none: it does not run, or tells of none.
  JobId JobNamed(const std::string& name);
  // The last map in the store.
  const v1::Map& map() const { return map_; }
  // Checks that each session id is given to one call only, whatever the store did.
  void OnHandedOut(uint64_t session, uint64_t nonce);
  // A user is told that a snapshot is complete. REQUIRES: the cluster has snapshots.
  void OnSnapshotTold(const std::string& name);
  // Called when a session is evicted because its client is silent.
  std::function<void(SessionId)> on_evicted = [](SessionId) {};
  // Called when a map was committed.
  std::function<void()> on_map = [] {};
  // This beat has reached the present start of the coordinator.
  void OnBeat(const v1::BeatRequest& beat);
  // When the cluster is quiet: the floor is below the first session that is not closed.
  void CheckFloor();

 private:
  struct Target {
    shard::Shard* shard = nullptr;
    Host* host = nullptr;
  };

  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) override;
  void Fence(ShardId shard, const std::string& address, v1::FenceRequest request, FenceDone done) override;
  void Recruit(ShardId shard, const std::string& address, v1::RecruitRequest request,
               RecruitDone done) override;
  void HandOver(ShardId shard, const std::string& address, v1::HandOverRequest request,
                HandOverDone done) override;
  void Identify(ShardId shard, const std::string& address, v1::IdentifyRequest request,
                IdentifyDone done) override;
  void EmptyFolder(ShardId shard, const std::string& address, v1::EmptyFolderRequest request,
                   EmptyFolderDone done) override;
  template <class Reply, class Request>
  void Ask(const std::string& address,
           void (shard::Shard::*ask)(const Request&, std::function<void(absl::StatusOr<Reply>)>),
           Request request, std::function<void(absl::StatusOr<Reply>)> done);
  void OnCommitted(absl::Span<const coordinator::Write> writes);
  void OnCommittedToOld(absl::Span<const coordinator::Write> writes);
  void OnCommitted(const coordinator::SessionRecord& session);
  void OnCommitted(const v1::Table& table);
  void OnCommitted(const coordinator::JobRecord& job);
  // A job that was being loaded is visible, or never will be.
  void OnLoadEnded(const coordinator::JobRecord& before, const coordinator::JobRecord& now);
  // `put_back`: the tables that the same commit puts.
  void OnDeleted(const std::string& key, const std::set<uint32_t>& put_back);
  void OnMap(const v1::Map& map);
  void OnDelta(const v1::Map& sent);
  void CheckMapOf(const shard::Shard& shard);
  void SessionMoved(const coordinator::SessionRecord& session,
                    coordinator::SessionRecord::State was) override;
  void MovesByLoad(uint32_t segment, uint32_t from, uint32_t to) override;
  void StoreBehind(const absl::Status& why) override;
  void Paused(absl::Duration gap) override;
  void OnTime(uint64_t start);
  void Arm();

  World& world_;
  DriftingClock clock_{world_.scheduler, 1};
  coordinator::Options options_;
  Host host_{.name = "coordinator"};
  std::shared_ptr<coordinator::MemoryStore::Disk> disk_;
  std::vector<coordinator::MemoryStore::Disk> copies_;      // the store as each start found it
  std::shared_ptr<coordinator::MemoryStore::Disk> newest_;  // null: it is in use
  coordinator::CountersRecord aged_counters_;               // of the older copy that is in use
  std::unique_ptr<FailingStore> store_;
  SnapshotShare* const share_;
  std::unique_ptr<SimSnapshotDesk> desk_;  // null: there are no snapshots
  std::vector<std::unique_ptr<SimSnapshotDesk>> dead_desks_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::map<std::string, Target> shards_;  // by address
  uint64_t starts_ = 0;
  absl::Time armed_ = absl::InfiniteFuture();
  v1::Map map_;                       // the last in the store
  std::map<uint64_t, v1::Map> maps_;  // by version
  std::optional<v1::Map>
      before_doubt_;  // the one before, if the author of the last does not know that it exists
  world::SplitMix64 secrets_{42};
  std::map<uint64_t, uint64_t> handed_out_;  // nonces by session
  std::map<uint32_t, v1::Table> tables_;     // the tables in the store
  std::map<uint32_t, coordinator::JobRecord> jobs_;
  // -- moves by load; times are on its clock --
  // Starts of shards, when each last told the present start of the coordinator its load.
  std::map<std::pair<uint32_t, uint64_t>, absl::Time> told_load_;
  absl::Time map_at_;                             // when the last map that its author knows came to the store
  std::map<uint32_t, absl::Time> moved_by_load_;  // segments, when last
  std::map<std::string, uint32_t> draining_;      // shards, by their keys in the store
  bool drains_in_doubt_ = false;                  // the author does not know all of these
};

// The coordinator's interface for one client.
class SimCoordinatorApi final : public sdk::CoordinatorApi {
 public:
  SimCoordinatorApi(World& world, SimCoordinator& coordinator, Host& client)
      : world_(world), coordinator_(coordinator), client_(client) {}

  void OpenSession(const v1::OpenSessionRequest& request, absl::Duration timeout,
                   Callback<v1::OpenSessionReply> done) override;
  void JoinJob(const v1::JoinJobRequest& request, absl::Duration timeout,
               Callback<v1::JoinJobReply> done) override;
  void KeepAlive(const v1::KeepAliveRequest& request, absl::Duration timeout,
                 Callback<v1::KeepAliveReply> done) override;
  void FinishWorker(const v1::FinishWorkerRequest& request, absl::Duration timeout,
                    Callback<v1::FinishWorkerReply> done) override;
  void CloseSession(const v1::CloseSessionRequest& request, absl::Duration timeout,
                    Callback<v1::CloseSessionReply> done) override;
  void OpenTable(const v1::OpenTableRequest& request, absl::Duration timeout,
                 Callback<v1::OpenTableReply> done) override;
  void DropTable(const v1::DropTableRequest& request, absl::Duration timeout,
                 Callback<v1::DropTableReply> done) override;
  void ChangeRule(const v1::ChangeRuleRequest& request, absl::Duration timeout,
                  Callback<v1::ChangeRuleReply> done) override;
  void OpenWork(const v1::OpenWorkRequest& request, absl::Duration timeout,
                Callback<v1::OpenWorkReply> done) override;
  void ReportWork(const v1::ReportWorkRequest& request, absl::Duration timeout,
                  Callback<v1::ReportWorkReply> done) override;
  // Calls of an operator, not of a client:
  void DeleteJob(const v1::DeleteJobRequest& request, absl::Duration timeout,
                 Callback<v1::DeleteJobReply> done);
  void CreateSnapshot(const v1::CreateSnapshotRequest& request, absl::Duration timeout,
                      Callback<v1::CreateSnapshotReply> done);
  void RestoreSnapshot(const v1::RestoreSnapshotRequest& request, absl::Duration timeout,
                       Callback<v1::RestoreSnapshotReply> done);
  void DeleteSnapshot(const v1::DeleteSnapshotRequest& request, absl::Duration timeout,
                      Callback<v1::DeleteSnapshotReply> done);
  std::unique_ptr<Watch> WatchMap(uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map,
                                  absl::AnyInvocable<void(absl::Status)> on_end) override;

 private:
  struct WatchState;
  class WatchHandle;

  template <class Request, class Reply, class Method>
  void Ask(Method method, const Request& request, absl::Duration timeout, Callback<Reply> done);
  static void CheckWatch(World& world, SimCoordinator& coordinator, const std::shared_ptr<WatchState>& state);

  World& world_;
  SimCoordinator& coordinator_;
  Host& client_;
};

}  // namespace paceline::sim
