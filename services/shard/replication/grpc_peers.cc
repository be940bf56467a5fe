#include "services/shard/replication/grpc_peers.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "libs/base/status.h"
#include "libs/rpc/deadline.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(1);

}  // namespace

GrpcPeers::GrpcPeers(const std::string& coordinators, const world::Clock& clock)
    : clock_(clock), coordinators_(coordinators), streams_([this] {
        loop_.Run(
            clock_, [] { return absl::InfiniteFuture(); }, [] {});
      }) {}

GrpcPeers::~GrpcPeers() {
  Stop();
}

void GrpcPeers::Stop() {
  if (!streams_.joinable()) return;
  caller_.Stop();
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
