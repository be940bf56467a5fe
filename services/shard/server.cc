#include "services/shard/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "paceline/v1/replication.grpc.pb.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kTimerEvery = absl::Milliseconds(20);
constexpr char kReadiness[] = "readiness";

}  // namespace

class Server::Control : public v1::ShardControl::Service {
 public:
  explicit Control(Shard& shard) : shard_(shard) {}

  grpc::Status Install(grpc::ServerContext*, const v1::InstallRequest* request,
                       v1::InstallReply* reply) override {
    absl::StatusOr<v1::InstallReply> installed = shard_.Install(*request);
    if (!installed.ok()) return rpc::ToGrpc(installed.status());
    *reply = *std::move(installed);
    return grpc::Status::OK;
  }

  grpc::Status ChangeSession(grpc::ServerContext* context, const v1::SessionChange* request,
                             v1::SessionChangeReply* reply) override {
    return Await(*context, &Shard::ChangeSession, *request, reply);
  }
  grpc::Status ChangeJob(grpc::ServerContext* context, const v1::JobChange* request,
                         v1::JobChangeReply* reply) override {
    return Await(*context, &Shard::ChangeJob, *request, reply);
  }
  grpc::Status Fence(grpc::ServerContext* context, const v1::FenceRequest* request,
                     v1::FenceReply* reply) override {
    return Await(*context, &Shard::Fence, *request, reply);
  }
  grpc::Status Recruit(grpc::ServerContext* context, const v1::RecruitRequest* request,
                       v1::RecruitReply* reply) override {
    return Await(*context, &Shard::Recruit, *request, reply);
  }
  grpc::Status HandOver(grpc::ServerContext* context, const v1::HandOverRequest* request,
                        v1::HandOverReply* reply) override {
    return Await(*context, &Shard::HandOver, *request, reply);
  }

 private:
  template <class Request, class Reply>
  grpc::Status Await(const grpc::ServerContext& context,
                     void (Shard::*change)(const Request&, std::function<void(absl::StatusOr<Reply>)>),
                     const Request& request, Reply* reply) {
    struct Outcome {
      Notification done;
      absl::StatusOr<Reply> reply = absl::UnknownError("");
    };
    // Outlives this call if it gives up first.
    auto outcome = std::make_shared<Outcome>();
    (shard_.*change)(request, [outcome](absl::StatusOr<Reply> changed) {
      outcome->reply = std::move(changed);
      outcome->done.Notify();
    });
    const auto left = context.deadline() - std::chrono::system_clock::now();
    if (!outcome->done.WaitForNotificationWithTimeout(std::min(absl::FromChrono(left), absl::Seconds(5)))) {
      return {grpc::StatusCode::DEADLINE_EXCEEDED, "the shard's executors are busy; ask again"};
    }
    if (!outcome->reply.ok()) return rpc::ToGrpc(outcome->reply.status());
    *reply = *std::move(outcome->reply);
    return grpc::Status::OK;
  }

  Shard& shard_;
};

// Push, Pull and PushPull are served raw, by streams; what is left says that it is not served.
class Server::Data
    : public v1::Shard::WithRawMethod_Push<
          v1::Shard::WithRawMethod_Pull<v1::Shard::WithRawMethod_PushPull<v1::Shard::Service>>> {
 public:
  grpc::Status Subscribe(grpc::ServerContext*, const v1::SubscribeRequest*,
                         grpc::ServerWriter<v1::SubscribeUpdate>*) override {
    return {grpc::StatusCode::UNIMPLEMENTED, "Subscribe is not served at feature level 1; use Pull"};
  }
};

class Server::Replication : public v1::Replication::WithRawMethod_Replicate<v1::Replication::Service> {};

Server::Server(Shard& shard)
    : shard_(shard),
      control_(std::make_unique<Control>(shard)),
      data_(std::make_unique<Data>()),
      replication_(std::make_unique<Replication>()) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Shard& shard, const std::string& address, int threads) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<Server> server(new Server(shard));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  // Two processes on one port would share it silently otherwise.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  rpc::ApplyDataPlaneArguments(builder);
  builder.RegisterService(server->control_.get());
  builder.RegisterService(server->data_.get());
  builder.RegisterService(server->replication_.get());
  server->streams_ = std::make_unique<rpc::ServerStreams>(builder, threads);
  Data* data = server->data_.get();
  server->streams_->Serve([data](auto* context, auto* stream, auto* queue,
                                 void* tag) { data->RequestPush(context, stream, queue, queue, tag); },
                          [&shard] { return shard.NewPushStream(); });
  server->streams_->Serve([data](auto* context, auto* stream, auto* queue,
                                 void* tag) { data->RequestPull(context, stream, queue, queue, tag); },
                          [&shard] { return shard.NewPullStream(); });
  server->streams_->Serve([data](auto* context, auto* stream, auto* queue,
                                 void* tag) { data->RequestPushPull(context, stream, queue, queue, tag); },
                          [&shard] { return shard.NewPushPullStream(); });
  Replication* replication = server->replication_.get();
  server->streams_->Serve(
      [replication](auto* context, auto* stream, auto* queue, void* tag) {
        replication->RequestReplicate(context, stream, queue, queue, tag);
      },
      [&shard] { return shard.NewReplicaStream(); });
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, "; choose another --listen, or port 0"));
  }
  server->server_->GetHealthCheckService()->SetServingStatus(kReadiness, false);
  server->address_ = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  server->streams_->Start();
  server->timer_ = std::thread([&shard, stop = &server->stop_] {
    while (!stop->WaitForNotificationWithTimeout(kTimerEvery)) shard.OnTime();
  });
  return server;
}

void Server::SetReady() {
  server_->GetHealthCheckService()->SetServingStatus(kReadiness, true);
}

Server::~Server() {
  if (server_ == nullptr) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  shard_.Stop();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  streams_->Shutdown();
  stop_.Notify();
  timer_.join();
}

}  // namespace paceline::shard
