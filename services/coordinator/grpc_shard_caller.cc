#include "services/coordinator/grpc_shard_caller.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace paceline::coordinator {
namespace {

constexpr std::chrono::seconds kCallTimeout{2};

// What one call needs until it is answered.
template <class Request, class Reply>
struct Outgoing {
  grpc::ClientContext context;
  Request request;
  Reply reply;

  absl::StatusOr<Reply> Outcome(const grpc::Status& status) {
    if (!status.ok()) return rpc::FromGrpc(status);
    return std::move(reply);
  }
};

template <class Reply, class Request>
std::shared_ptr<Outgoing<Request, Reply>> Prepare(Request request) {
  auto call = std::make_shared<Outgoing<Request, Reply>>();
  call->context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  call->request = std::move(request);
  return call;
}

}  // namespace

v1::ShardControl::Stub& GrpcShardCaller::StubFor(ShardId shard, const std::string& address) {
  Peer& peer = peers_[shard];
  if (peer.address != address) {
    peer.address = address;
    peer.stub = v1::ShardControl::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()));
  }
  return *peer.stub;
}

void GrpcShardCaller::Install(ShardId shard, const std::string& address, v1::InstallRequest request,
                              InstallDone done) {
  auto call = Prepare<v1::InstallReply>(std::move(request));
  StubFor(shard, address)
      .async()
      ->Install(&call->context, &call->request, &call->reply,
                [call, enter = enter_, done = std::move(done)](grpc::Status status) {
                  enter([&] { done(call->Outcome(status)); });
                });
}

void GrpcShardCaller::ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                                    ChangeDone done) {
  auto call = Prepare<v1::SessionChangeReply>(std::move(change));
  StubFor(shard, address)
      .async()
      ->ChangeSession(&call->context, &call->request, &call->reply,
                      [call, enter = enter_, done = std::move(done)](grpc::Status status) {
                        enter([&] { done(call->Outcome(status)); });
                      });
}

}  // namespace paceline::coordinator
