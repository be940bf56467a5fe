#pragma once

#include <map>
#include <memory>
#include <string>

#include "sdk/cpp/src/coordinator_api.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/store/memory_store.h"
#include "services/shard/shard.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A store whose next commit may fail.
class FailingStore final : public coordinator::Store {
 public:
  enum class Failure {
    kNone,
    kBefore,
    kAfter
  };  // the commit has no effect, or it has and nobody hears of it

  // `committed` hears of all that took effect, whatever the caller was told.
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

 private:
  std::unique_ptr<coordinator::MemoryStore> store_;
  const Committed committed_;
};

// A coordinator's process: the real core on a store in memory. It may die at any step and come back from its
// store.
class SimCoordinator final : private coordinator::ShardCaller, private coordinator::Probe {
 public:
  SimCoordinator(World& world, coordinator::Options options);
  ~SimCoordinator() override;

  void AddShard(const std::string& address, shard::Shard& shard, Host& host) {
    shards_[address] = {&shard, &host};
  }
  void Start();
  // As by SIGKILL.
  void Kill();

  // nullptr: it is down.
  coordinator::CoordinatorCore* core() { return core_.get(); }
  Host& host() { return host_; }
  // nullptr: it is down.
  FailingStore* store() { return store_.get(); }
  // Runs `visit` if the core is up, and sees to what it leaves to be done in time.
  void Visit(const std::function<void(coordinator::CoordinatorCore&)>& visit);
  uint64_t starts() const { return starts_; }

 private:
  struct Target {
    shard::Shard* shard = nullptr;
    Host* host = nullptr;
  };

  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                     ChangeDone done) override;
  void OnCommitted(absl::Span<const coordinator::Write> writes);
  void OnMap(const v1::Map& map);
  void SessionMoved(const coordinator::SessionRecord& session,
                    coordinator::SessionRecord::State was) override;
  void Paused(absl::Duration gap) override;
  void OnTime(uint64_t start);
  void Arm();

  World& world_;
  const coordinator::Options options_;
  Host host_{.name = "coordinator"};
  std::shared_ptr<coordinator::MemoryStore::Disk> disk_;
  std::unique_ptr<FailingStore> store_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::map<std::string, Target> shards_;  // by address
  uint64_t starts_ = 0;
  absl::Time armed_ = absl::InfiniteFuture();
  v1::Map map_;  // the last in the store
};

// The coordinator as one client reaches it.
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
