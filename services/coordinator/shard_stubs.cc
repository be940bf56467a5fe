#include "services/coordinator/shard_stubs.h"

#include <chrono>
#include <functional>
#include <utility>

#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace paceline::coordinator {
namespace {

constexpr std::chrono::seconds kCallTimeout{2};

}  // namespace

template <class Request, class Reply>
struct ShardStubs::Call {
  ShardId shard;
  std::string address;
  Request request;
  std::function<void(absl::StatusOr<Reply>)> done;
  // Which of the stub's methods it is.
  std::function<void(v1::ShardControl::Stub&, Call&, std::function<void(grpc::Status)>)> invoke;
  grpc::ClientContext context;
  Reply reply;
};

ShardStubs::~ShardStubs() {
  Shutdown();
}

void ShardStubs::Install(ShardId shard, const std::string& address, v1::InstallRequest request,
                         InstallDone done) {
  auto call = std::make_shared<Call<v1::InstallRequest, v1::InstallReply>>();
  call->shard = shard;
  call->address = address;
  call->request = std::move(request);
  call->done = std::move(done);
  call->invoke = [](v1::ShardControl::Stub& stub, auto& c, auto answered) {
    stub.async()->Install(&c.context, &c.request, &c.reply, std::move(answered));
  };
  host_.Later([this, call] { Begin(call); });
}

void ShardStubs::ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                               ChangeDone done) {
  auto call = std::make_shared<Call<v1::SessionChange, v1::SessionChangeReply>>();
  call->shard = shard;
  call->address = address;
  call->request = std::move(change);
  call->done = std::move(done);
  call->invoke = [](v1::ShardControl::Stub& stub, auto& c, auto answered) {
    stub.async()->ChangeSession(&c.context, &c.request, &c.reply, std::move(answered));
  };
  host_.Later([this, call] { Begin(call); });
}

template <class Request, class Reply>
void ShardStubs::Begin(std::shared_ptr<Call<Request, Reply>> call) {
  if (!Enter(&call->context)) {
    host_.Visit([&](CoordinatorCore&) { call->done(absl::UnavailableError("the coordinator is stopping")); });
    return;
  }
  call->context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  const std::shared_ptr<v1::ShardControl::Stub> stub = StubFor(call->shard, call->address);
  // The stub is kept by the call: its connection may be replaced meanwhile.
  call->invoke(*stub, *call, [this, call, stub](const grpc::Status& status) {
    host_.Visit([&](CoordinatorCore&) {
      call->done(status.ok() ? absl::StatusOr<Reply>(std::move(call->reply)) : rpc::FromGrpc(status));
    });
    Leave(&call->context);
  });
}

std::shared_ptr<v1::ShardControl::Stub> ShardStubs::StubFor(ShardId shard, const std::string& address) {
  absl::MutexLock lock(&mutex_);
  Connection& connection = connections_[shard];
  if (connection.address != address) {
    connection.address = address;
    connection.stub = v1::ShardControl::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()));
  }
  return connection.stub;
}

bool ShardStubs::Enter(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  if (!down_) under_way_.insert(context);
  return !down_;
}

void ShardStubs::Leave(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  under_way_.erase(context);
}

void ShardStubs::Shutdown() {
  absl::MutexLock lock(&mutex_);
  down_ = true;
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_.empty(); };
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace paceline::coordinator
