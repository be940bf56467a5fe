#pragma once

#include <functional>

#include "absl/functional/function_ref.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/coordinator/metadata/coordinator_core.h"

namespace paceline::coordinator {

// The Coordinator service over gRPC's callback API: takes a request to the core and its answer back.
// Thread-safe.
class Service : public v1::Coordinator::CallbackService {
 public:
  // Runs what it is given with the core, under the lock; not at all once the coordinator is gone (false).
  using Enter = std::function<bool(absl::FunctionRef<void(CoordinatorCore&)>)>;

  // `clock` must outlive the service.
  Service(Enter enter, const world::Clock& clock) : enter_(std::move(enter)), clock_(clock) {}

  grpc::ServerUnaryReactor* JoinCluster(grpc::CallbackServerContext* context,
                                        const v1::JoinClusterRequest* request,
                                        v1::JoinClusterReply* reply) override;
  grpc::ServerUnaryReactor* Beat(grpc::CallbackServerContext* context, const v1::BeatRequest* request,
                                 v1::BeatReply* reply) override;
  grpc::ServerWriteReactor<v1::Map>* WatchMap(grpc::CallbackServerContext* context,
                                              const v1::WatchMapRequest* request) override;
  grpc::ServerUnaryReactor* GetCatalogue(grpc::CallbackServerContext* context,
                                         const v1::GetCatalogueRequest* request,
                                         v1::Catalogue* reply) override;
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::StatusRequest* request,
                                   v1::StatusReply* reply) override;
  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::OpenSessionReply* reply) override;
  grpc::ServerUnaryReactor* JoinJob(grpc::CallbackServerContext* context, const v1::JoinJobRequest* request,
                                    v1::JoinJobReply* reply) override;
  grpc::ServerUnaryReactor* KeepAlive(grpc::CallbackServerContext* context,
                                      const v1::KeepAliveRequest* request,
                                      v1::KeepAliveReply* reply) override;
  grpc::ServerUnaryReactor* FinishWorker(grpc::CallbackServerContext* context,
                                         const v1::FinishWorkerRequest* request,
                                         v1::FinishWorkerReply* reply) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionReply* reply) override;
  grpc::ServerUnaryReactor* OpenTable(grpc::CallbackServerContext* context,
                                      const v1::OpenTableRequest* request,
                                      v1::OpenTableReply* reply) override;

 private:
  template <class Reply>
  class Waiting;
  class Watcher;

  // Answers at once with what `ask` returns.
  template <class Reply>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Reply* reply,
                                   absl::FunctionRef<absl::StatusOr<Reply>(CoordinatorCore&)> ask);
  // Answers when the core does; a client that goes away gives the request up.
  template <class Request, class Reply>
  grpc::ServerUnaryReactor* Wait(grpc::CallbackServerContext* context, const Request& request, Reply* reply,
                                 Ticket (CoordinatorCore::*ask)(const Request&, absl::Time, Done<Reply>));

  const Enter enter_;
  const world::Clock& clock_;
};

}  // namespace paceline::coordinator
