#include "services/shard/replication/grpc_peers.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "libs/base/status.h"
#include "libs/rpc/deadline.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(1);
// How long the thread that carries frames over shared memory looks for the next one before it sleeps, if that
// has paid lately. Followers answer within some tens of microseconds.
constexpr absl::Duration kLookForAnswers = absl::Microseconds(50);
// As long as gRPC's pings give a peer. What waits for it is memory that nobody counts.
constexpr absl::Duration kStuckMax = absl::Seconds(10);

std::unique_ptr<shm::NearDialer> NearDialerOf(const std::string& socket_dir, world::Dialer& far) {
  if (socket_dir.empty()) return nullptr;
  const auto say = [](const std::string& text) { spdlog::info("{}", text); };
  return std::make_unique<shm::NearDialer>(far, socket_dir, say,
                                           shm::Loop::Options{.spin_max = kLookForAnswers}, kStuckMax);
}

}  // namespace

GrpcPeers::GrpcPeers(const std::string& coordinators, const world::Clock& clock,
                     const std::string& socket_dir)
    : clock_(clock), coordinators_(coordinators), near_(NearDialerOf(socket_dir, dialer_)), streams_([this] {
        loop_.Run(
            clock_, [] { return absl::InfiniteFuture(); }, [] {});
      }) {}

GrpcPeers::~GrpcPeers() {
  Stop();
}

void GrpcPeers::Stop() {
  if (!streams_.joinable()) return;
  caller_.Stop();
  if (near_ != nullptr) near_->Stop(absl::CancelledError("the shard ends"));
  loop_.Stop();
  streams_.join();
}

world::Dialer& GrpcPeers::dialer() {
  if (near_ != nullptr) return *near_;
  return dialer_;
}

void GrpcPeers::ChangeConfigs(v1::ChangeConfigsRequest request,
                              std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) {
  caller_.Run([this, request = std::move(request), done = std::move(done)] { done(Ask(request)); });
}

absl::StatusOr<v1::ChangeConfigsReply> GrpcPeers::Ask(const v1::ChangeConfigsRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(rpc::After(kCallTimeout));
  v1::ChangeConfigsReply reply;
  const auto one = coordinators_.Current();
  ABSL_RETURN_IF_ERROR(
      coordinators_.Heard(*one, one->stub->ChangeConfigs(&context, request, &reply), context));
  return reply;
}

}  // namespace paceline::shard
