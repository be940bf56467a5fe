#include "services/coordinator/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/connections.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/reflection.h"
#include "services/coordinator/status_page.h"

namespace paceline::coordinator {
namespace {

// The largest request, seals and beats included; lists of tables are only sent, not received.
constexpr int kRequestBytesMax = 4 << 20;
// Memory for requests being read, and for answers. gRPC ends calls that would need more.
constexpr size_t kMemoryMax = size_t{512} << 20;
constexpr int kThreadsMax = 64;
constexpr absl::Duration kEndTimeout = absl::Seconds(1);
// Many may look at the page; it has rows for all shards, jobs and sessions.
constexpr absl::Duration kPageKept = absl::Seconds(1);

void SetUp(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  // Detects watchers whose machine vanished; clients may do the same with the coordinator.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, rpc::kKeepAliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, rpc::kKeepAliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  rpc::ApplyLimits(builder, kThreadsMax, kMemoryMax);
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
  coordinator.random = &server->random_;
  if (options.snapshots != nullptr) {
    server->snapshots_ = std::make_unique<SnapshotDesk>(server->host_, options.snapshots);
    coordinator.snapshots = server->snapshots_.get();
  }
  if (!options.statefulset.empty()) {
    ABSL_ASSIGN_OR_RETURN(KubernetesApi api, ApiOfPod(options.account_dir));
    const size_t slash = options.statefulset.find('/');
    server->statefulset_ =
        std::make_unique<StatefulSet>(server->host_, std::move(api), options.statefulset.substr(0, slash),
                                      options.statefulset.substr(slash + 1));
    coordinator.wanted_shards = server->statefulset_.get();
  }
  ABSL_RETURN_IF_ERROR(server->host_.Start(std::move(coordinator), *server->store_, server->stubs_,
                                           server->probe_, on_step_down));
  ABSL_RETURN_IF_ERROR(server->Listen(options.listen, options.reflection));
  server->host_.Visit([&](Candidate& candidate) {
    candidate.Advertise(options.advertise.empty() ? server->address() : options.advertise);
  });
  ABSL_RETURN_IF_ERROR(server->ShowMetrics(options));
  return server;
}

absl::Status Server::Listen(const std::string& address, bool reflection) {
  grpc::EnableDefaultHealthCheckService(true);
  if (reflection) ABSL_RETURN_IF_ERROR(rpc::ServeReflection());
  grpc::ServerBuilder builder;
  SetUp(builder);
  ABSL_ASSIGN_OR_RETURN(listener_, rpc::Listener::Open(address));
  listener_->AddTo(builder);
  builder.RegisterService(&service_);
  service_.ShowConnections(listener_->counts());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC cannot build the server; see its log");
  server_->GetHealthCheckService()->SetServingStatus(rpc::kConnectionsHealth, true);
  listener_->Start([this](bool full) {
    server_->GetHealthCheckService()->SetServingStatus(rpc::kConnectionsHealth, !full);
    rpc::LogFull(full);
  });
  return absl::OkStatus();
}

absl::Status Server::ShowMetrics(const ServerOptions& options) {
  if (options.metrics_listen.empty()) return absl::OkStatus();
  metrics::Labels labels;
  if (!options.metrics_cluster.empty()) labels.emplace_back("paceline_cluster", options.metrics_cluster);
  ABSL_ASSIGN_OR_RETURN(page_, metrics::Exposer::Start(options.metrics_listen, labels));
  page_->Collect([this](metrics::Families& families) {
    probe_.Show(families);
    rpc::ShowConnections(families, "paceline_coordinator_", *listener_->counts());
    ShowGauges(families, host_.Visit([](Candidate& candidate) { return candidate.gauges(); }));
  });
  page_->Serve(
      "/ui", [this, cluster = options.metrics_cluster] { return StatusPage(service_.StatusNow(), cluster); },
      kPageKept);
  return absl::OkStatus();
}

Server::~Server() {
  if (listener_ != nullptr) listener_->Stop();
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(false);
  host_.Stop();
  service_.Stop();
  if (server_ != nullptr) {
    server_->Shutdown(rpc::After(kEndTimeout));
    service_.AwaitIdle();
  }
  stubs_.Shutdown();
  if (snapshots_ != nullptr) snapshots_->Stop();
  if (statefulset_ != nullptr) statefulset_->Stop();
  page_.reset();  // first: it reads the core, and takes time to stop
}

}  // namespace paceline::coordinator
