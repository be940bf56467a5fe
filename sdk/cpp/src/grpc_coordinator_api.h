#pragma once

#include <memory>
#include <string>

#include "libs/rpc/event_loop.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "sdk/cpp/src/coordinator_api.h"

namespace paceline::sdk {

// Asks a coordinator over gRPC; answers come on the loop's thread. Thread-safe.
class GrpcCoordinatorApi : public CoordinatorApi {
 public:
  // `loop` must run until every question is answered; it counts them.
  GrpcCoordinatorApi(rpc::EventLoop& loop, const std::string& address);

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
  template <class Reply>
  class Question;
  class MapStream;
  class MapWatch;

  // Asks with one of the stub's PrepareAsync… functions.
  template <class Reply, class Request, class Prepare>
  void Ask(Prepare prepare, const Request& request, absl::Duration timeout, Callback<Reply> done);

  rpc::EventLoop& loop_;
  const std::string address_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace paceline::sdk
