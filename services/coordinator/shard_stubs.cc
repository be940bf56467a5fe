#include "services/coordinator/shard_stubs.h"

#include <chrono>
#include <functional>
#include <utility>

#include "libs/rpc/channel.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "libs/wire/texts.h"
#include "services/coordinator/level_one.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(2);

}  // namespace

template <class Request, class Reply>
struct ShardStubs::Call {
  ShardId shard;
  std::string address;
  Request request;
  std::function<void(absl::StatusOr<Reply>)> done;
  // Calls the stub's method.
  std::function<void(v1::ShardControl::Stub&, Call&, std::function<void(grpc::Status)>)> invoke;
  grpc::ClientContext context;
  Reply reply;
};

ShardStubs::~ShardStubs() {
  Shutdown();
}

template <class Request, class Reply, class Method>
void ShardStubs::Queue(Method method, ShardId shard, const std::string& address, Request request,
                       std::function<void(absl::StatusOr<Reply>)> done) {
  auto call = std::make_shared<Call<Request, Reply>>();
  call->shard = shard;
  call->address = address;
  call->request = std::move(request);
  call->done = std::move(done);
  call->invoke = [method](v1::ShardControl::Stub& stub, auto& c, auto answered) {
    method(*stub.async(), &c.context, &c.request, &c.reply, std::move(answered));
  };
  host_.Later([this, call] { Begin(call); });
}

#define CALL(Name)                                                                                   \
  void ShardStubs::Name(ShardId shard, const std::string& address, v1::Name##Request request,        \
                        Name##Done done) {                                                           \
    Queue([](auto& stub, auto... arguments) { stub.Name(std::move(arguments)...); }, shard, address, \
          std::move(request), std::move(done));                                                      \
  }
PACELINE_CALLS_OF_SHARDS(CALL)
#undef CALL

void ShardStubs::MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) {
  const auto answered = [this, shard, address, change, done](const absl::StatusOr<v1::ChangeReply>& reply) {
    if (!absl::IsUnimplemented(reply.status())) return done(reply);
    MakeAtLevelOne(shard, address, change, done);
  };
  Queue<v1::Change, v1::ChangeReply>(
      [](auto& stub, auto... arguments) { stub.MakeChange(std::move(arguments)...); }, shard, address,
      std::move(change), answered);
}
void ShardStubs::MakeAtLevelOne(ShardId shard, const std::string& address, const v1::Change& change,
                                const ChangeDone& done) {
  const auto answered = [done](const auto& reply) {
    reply.ok() ? done(FromLevelOne(*reply)) : done(reply.status());
  };
  if (IsOfSession(change)) {
    return Queue<v1::SessionChange, v1::SessionChangeReply>(
        [](auto& stub, auto... arguments) { stub.ChangeSession(std::move(arguments)...); }, shard, address,
        ToSessionChange(change), answered);
  }
  Queue<v1::JobChange, v1::JobChangeReply>(
      [](auto& stub, auto... arguments) { stub.ChangeJob(std::move(arguments)...); }, shard, address,
      ToJobChange(change), answered);
}

template <class Request, class Reply>
void ShardStubs::Begin(std::shared_ptr<Call<Request, Reply>> call) {
  if (!Enter(&call->context)) {
    host_.Visit([&](Candidate&) { call->done(absl::UnavailableError("the coordinator is stopping")); });
    return;
  }
  call->context.set_deadline(rpc::After(kCallTimeout));
  const std::shared_ptr<v1::ShardControl::Stub> stub = StubFor(call->shard, call->address);
  // The call keeps the stub: its connection may be replaced meanwhile.
  call->invoke(*stub, *call, [this, call, stub](const grpc::Status& status) {
    absl::Status answered = rpc::FromGrpc(status);
    if (answered.ok()) answered = wire::CheckTexts(call->reply);
    host_.Visit([&](Candidate&) {
      call->done(answered.ok() ? absl::StatusOr<Reply>(std::move(call->reply)) : answered);
    });
    Leave(&call->context);
  });
}

std::shared_ptr<v1::ShardControl::Stub> ShardStubs::StubFor(ShardId shard, const std::string& address) {
  const std::lock_guard lock(mutex_);
  Connection& connection = connections_[shard];
  if (connection.address != address) {
    connection.address = address;
    connection.stub = v1::ShardControl::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()));
  }
  return connection.stub;
}

bool ShardStubs::Enter(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  if (!down_) under_way_.insert(context);
  return !down_;
}

void ShardStubs::Leave(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(context);
  if (under_way_.empty()) idle_.notify_all();
}

void ShardStubs::Shutdown() {
  std::unique_lock lock(mutex_);
  down_ = true;
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
  idle_.wait(lock, [this] { return under_way_.empty(); });
}

}  // namespace paceline::coordinator
