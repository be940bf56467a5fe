#pragma once

#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/coordinator/core_host.h"

namespace paceline::coordinator {

// The coordinator's gRPC service: each method hands its request to the core and the core's answer back. A
// call that its client cancels, or whose connection breaks, is abandoned.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  // `host` must outlive the service.
  explicit CoordinatorService(CoreHost& host) : host_(host) {}

  // Ends every WatchMap with UNAVAILABLE, later ones at once. (The core answers all others.)
  void EndWatches() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when gRPC is done with every call. Call after the server was shut down.
  void AwaitIdle() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Watch;
  template <class Reply>
  class WaitingCall;
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

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

  // Answers at once with what `ask` returns.
  template <class Reply, class Ask>
  Reactor* Answer(Context* context, Reply* reply, Ask ask);
  // Answers when the core does; `ask` is given the deadline and where to answer.
  template <class Reply, class Ask>
  Reactor* AnswerLater(Context* context, Reply* reply, Ask ask);

  CoreHost& host_;
  absl::Mutex mutex_;
  int waiting_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::coordinator
