#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "absl/status/status.h"
#include "libs/rpc/listener.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/coordinator/core_host.h"

namespace paceline::coordinator {

// The coordinator's gRPC service: each method passes its request to the core, and the core's answer back. A
// call that its client cancels, or whose connection breaks, is abandoned. While the coordinator stands by,
// every call but Status is answered UNAVAILABLE. The trailing metadata of errors says whether this
// coordinator leads (libs/rpc/standing.h), so that clients know whether to ask another one.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  // `host` must outlive the service.
  explicit CoordinatorService(CoreHost& host) : host_(host) {}

  // Makes Status report that this process refuses connections. Call before the server is built.
  void ShowConnections(std::shared_ptr<const rpc::ConnectionCounts> counts) {
    connections_ = std::move(counts);
  }
  // Ends every present WatchMap with `why`. (The core answers all other calls.)
  void EndWatches(const absl::Status& why);
  // Ends later ones at once too: the process is about to end.
  void Stop();
  // Returns when gRPC has finished every call. Call after the server was shut down.
  void AwaitIdle();

 private:
  class Watch;
  template <class Reply>
  class WaitingCall;
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  using Message = google::protobuf::Message;

  Reactor* JoinCluster(Context*, const v1::JoinClusterRequest*, v1::JoinClusterReply*) override;
  Reactor* Beat(Context*, const v1::BeatRequest*, v1::BeatReply*) override;
  grpc::ServerWriteReactor<v1::Map>* WatchMap(Context*, const v1::WatchMapRequest*) override;
  Reactor* GetCatalogue(Context*, const v1::GetCatalogueRequest*, v1::Catalogue*) override;
  Reactor* Status(Context*, const v1::StatusRequest*, v1::StatusReply*) override;
  Reactor* OpenSession(Context*, const v1::OpenSessionRequest*, v1::OpenSessionReply*) override;
  Reactor* JoinJob(Context*, const v1::JoinJobRequest*, v1::JoinJobReply*) override;
  Reactor* KeepAlive(Context*, const v1::KeepAliveRequest*, v1::KeepAliveReply*) override;
  Reactor* FinishWorker(Context*, const v1::FinishWorkerRequest*, v1::FinishWorkerReply*) override;
  Reactor* CloseSession(Context*, const v1::CloseSessionRequest*, v1::CloseSessionReply*) override;
  Reactor* OpenTable(Context*, const v1::OpenTableRequest*, v1::OpenTableReply*) override;
  Reactor* DropTable(Context*, const v1::DropTableRequest*, v1::DropTableReply*) override;
  Reactor* ChangeRule(Context*, const v1::ChangeRuleRequest*, v1::ChangeRuleReply*) override;
  Reactor* ChangeConfigs(Context*, const v1::ChangeConfigsRequest*, v1::ChangeConfigsReply*) override;
  Reactor* HandOverShard(Context*, const v1::HandOverShardRequest*, v1::HandOverShardReply*) override;
  Reactor* RemoveShard(Context*, const v1::RemoveShardRequest*, v1::RemoveShardReply*) override;
  Reactor* RecoverSegments(Context*, const v1::RecoverSegmentsRequest*, v1::RecoverSegmentsReply*) override;
  Reactor* DeleteJob(Context*, const v1::DeleteJobRequest*, v1::DeleteJobReply*) override;
  Reactor* CreateSnapshot(Context*, const v1::CreateSnapshotRequest*, v1::CreateSnapshotReply*) override;
  Reactor* ListSnapshots(Context*, const v1::ListSnapshotsRequest*, v1::ListSnapshotsReply*) override;
  Reactor* DeleteSnapshot(Context*, const v1::DeleteSnapshotRequest*, v1::DeleteSnapshotReply*) override;
  Reactor* ScheduleSnapshots(Context*, const v1::ScheduleSnapshotsRequest*,
                             v1::ScheduleSnapshotsReply*) override;
  Reactor* RestoreSnapshot(Context*, const v1::RestoreSnapshotRequest*, v1::RestoreSnapshotReply*) override;

  // Answers at once with the result of ask(core, request), or with the fault of a text in the request.
  template <class Request, class Reply, class Ask>
  Reactor* Answer(Context* context, const Request& request, Reply* reply, Ask ask);
  // Answers when the core does; `ask` is a function of the core.
  template <class Request, class Reply, class Ask>
  Reactor* AnswerLater(Context* context, const Request& request, Reply* reply, Ask ask);

  CoreHost& host_;
  std::shared_ptr<const rpc::ConnectionCounts> connections_;  // null: not known
  // Guards the members below. A standard-library lock for ThreadSanitizer's sake (see core_host.h).
  std::mutex mutex_;
  std::condition_variable idle_;
  int waiting_calls_ = 0;
  std::set<std::shared_ptr<Watch>> watches_;
  bool ended_ = false;
};

}  // namespace paceline::coordinator
