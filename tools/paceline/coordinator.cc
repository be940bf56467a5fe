#include "tools/paceline/coordinator.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/time/clock.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace paceline::tool {

Coordinator::Coordinator(const std::string& address)
    : address_(address),
      stub_(v1::Coordinator::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                                               rpc::ControlPlaneArguments()))) {}

absl::StatusOr<v1::StatusReply> Coordinator::Status(absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  v1::StatusReply reply;
  const grpc::Status status = stub_->Status(&context, v1::StatusRequest(), &reply);
  if (!status.ok()) return rpc::FromGrpc(status);
  return reply;
}

}  // namespace paceline::tool
