#include "services/coordinator/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"

namespace paceline::coordinator {
namespace {

// What a message may have, seals and beats included; a list of tables is sent, not received.
constexpr int kRequestBytesMax = 4 << 20;
constexpr std::chrono::seconds kEndTimeout{1};

void SetUp(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  // Two processes on one port would share it silently otherwise.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A watcher whose machine vanished is noticed, and clients may do the same with us.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, rpc::kKeepAliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, rpc::kKeepAliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<Store> store) {
  std::unique_ptr<Server> server(
      new Server(std::move(store), options.coordinator.leader_lease > absl::ZeroDuration()));
  const auto on_step_down = [s = server.get()](const absl::Status& why) {
    s->host_.Later([s, why] { s->service_.EndWatches(why); });
  };
  Options coordinator = options.coordinator;
  if (options.snapshots != nullptr) {
    server->snapshots_ = std::make_unique<SnapshotDesk>(server->host_, options.snapshots);
    coordinator.snapshots = server->snapshots_.get();
  }
  ABSL_RETURN_IF_ERROR(server->host_.Start(std::move(coordinator), *server->store_, server->stubs_,
                                           server->probe_, on_step_down));
  ABSL_RETURN_IF_ERROR(server->Listen(options.listen));
  server->host_.Visit([&](Candidate& candidate) {
    candidate.Advertise(options.advertise.empty() ? server->address_ : options.advertise);
  });
  ABSL_RETURN_IF_ERROR(server->ShowMetrics(options.metrics_listen));
  return server;
}

absl::Status Server::Listen(const std::string& address) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetUp(builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, "; choose another --listen, or port 0"));
  }
  address_ = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  return absl::OkStatus();
}

absl::Status Server::ShowMetrics(const std::string& address) {
  if (address.empty()) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(page_, metrics::Exposer::Start(address));
  page_->Collect([this](metrics::Families& families) {
    probe_.Show(families);
    ShowGauges(families, host_.Visit([](Candidate& candidate) { return candidate.gauges(); }));
  });
  return absl::OkStatus();
}

Server::~Server() {
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(false);
  host_.Stop();
  service_.Stop();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + kEndTimeout);
    service_.AwaitIdle();
  }
  stubs_.Shutdown();
  if (snapshots_ != nullptr) snapshots_->Stop();
  page_.reset();  // it looks at the core until then, and takes its time
}

}  // namespace paceline::coordinator
