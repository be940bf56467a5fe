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

// The calls that are those of CoordinatorCore: CoordinatorCore::Name takes a v1::NameRequest, and returns a
// v1::NameReply or, with a deadline and a function to answer with, takes its time.
// clang-format off
#define PACELINE_CALLS_OF_CORE(CALL) \
  CALL(JoinCluster) CALL(Beat) CALL(ChangeConfigs) CALL(HandOverShard) CALL(DrainShards) CALL(RemoveShard) \
  CALL(StopShard) CALL(RecoverSegments) \
  CALL(OpenSession) CALL(JoinJob) CALL(KeepAlive) CALL(FinishWorker) CALL(CloseSession) \
  CALL(OpenTable) CALL(DeleteJob) PACELINE_CALLS_OF_JOBS(CALL) CALL(OpenWork) CALL(ReportWork) \
  CALL(CreateSnapshot) CALL(ListSnapshots) CALL(DeleteSnapshot) CALL(ScheduleSnapshots) CALL(RestoreSnapshot)
// clang-format on

// The coordinator's gRPC service: each method passes its request to the core, and the core's answer back. A
// call that its client cancels, or whose connection breaks, is abandoned. While the coordinator stands by,
// every call but Status is answered UNAVAILABLE. The trailing metadata of errors says whether this
// coordinator leads (libs/rpc/leadership.h), so that clients know whether to ask another one.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  // `host` must outlive the service.
  explicit CoordinatorService(CoreHost& host) : host_(host) {}

  // Makes Status report that this process refuses connections. Call before the server is built.
  // What Status answers.
  v1::StatusReply StatusNow();
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

#define CALL(Name) Reactor* Name(Context*, const v1::Name##Request*, v1::Name##Reply*) override;
  PACELINE_CALLS_OF_CORE(CALL)
#undef CALL
  grpc::ServerWriteReactor<v1::Map>* WatchMap(Context*, const v1::WatchMapRequest*) override;
  Reactor* GetCatalogue(Context*, const v1::GetCatalogueRequest*, v1::Catalogue*) override;
  Reactor* Status(Context*, const v1::StatusRequest*, v1::StatusReply*) override;

  // Asks the core, by calling `ask` with it and what its function takes.
  template <class Request, class Reply, class Ask>
  Reactor* Pass(Context* context, const Request& request, Reply* reply, Ask ask);
  // Answers at once with the result of `ask`, or with the fault of a text in the request.
  template <class Reply, class Ask>
  Reactor* Answer(Context* context, const Message& request, Reply* reply, Ask ask);
  // Answers when the core does; `ask` is given the deadline and the function to answer with.
  template <class Reply, class Ask>
  Reactor* AnswerLater(Context* context, const Message& request, Reply* reply, Ask ask);

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
