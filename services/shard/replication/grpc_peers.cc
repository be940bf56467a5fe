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

dial::ShardDialer::Options DialOf(const GrpcPeers::Ways& ways) {
  return {.socket_dir = ways.socket_dir,
          .direct = ways.direct,
          .loop = {.spin_max = kLookForAnswers},
          .stuck_max = kStuckMax,
          .say = [](const std::string& text) { spdlog::info("{}", text); }};
}

}  // namespace

GrpcPeers::GrpcPeers(const std::string& coordinators, const world::Clock& clock, const Ways& ways)
    : clock_(clock), coordinators_(coordinators), dialer_(loop_, DialOf(ways)), streams_([this] {
        loop_.Run(
            clock_, [] { return absl::InfiniteFuture(); }, [] {});
      }) {}

GrpcPeers::~GrpcPeers() {
  Stop();
}

void GrpcPeers::Stop() {
  if (!streams_.joinable()) return;
  caller_.Stop();
  dialer_.Stop(absl::CancelledError("the shard ends"));
  loop_.Stop();
  streams_.join();
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
