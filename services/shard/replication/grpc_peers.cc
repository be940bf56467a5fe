#include "services/shard/replication/grpc_peers.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "libs/rpc/deadline.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(1);

}  // namespace

struct GrpcPeers::Calls {
  struct One {
    v1::ChangeConfigsRequest request;
    std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<One> waiting;
  bool stop = false;
};

GrpcPeers::GrpcPeers(const std::string& coordinators, const world::Clock& clock)
    : clock_(clock),
      coordinators_(coordinators),
      calls_(std::make_shared<Calls>()),
      streams_([this] {
        loop_.Run(
            clock_, [] { return absl::InfiniteFuture(); }, [] {});
      }),
      caller_([this] { Call(); }) {}

GrpcPeers::~GrpcPeers() {
  Stop();
}

void GrpcPeers::Stop() {
  if (!caller_.joinable()) return;
  {
    const std::lock_guard lock(calls_->mutex);
    calls_->stop = true;
  }
  calls_->changed.notify_one();
  caller_.join();
  loop_.Stop();
  streams_.join();
}

void GrpcPeers::ChangeConfigs(v1::ChangeConfigsRequest request,
                              std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) {
  const std::lock_guard lock(calls_->mutex);
  if (calls_->stop) return;
  calls_->waiting.push_back({std::move(request), std::move(done)});
  calls_->changed.notify_one();
}

void GrpcPeers::Call() {
  while (true) {
    Calls::One call;
    {
      std::unique_lock lock(calls_->mutex);
      calls_->changed.wait(lock, [this] { return calls_->stop || !calls_->waiting.empty(); });
      if (calls_->stop) return;
      call = std::move(calls_->waiting.front());
      calls_->waiting.pop_front();
    }
    grpc::ClientContext context;
    context.set_deadline(rpc::After(kCallTimeout));
    v1::ChangeConfigsReply reply;
    const auto one = coordinators_.Current();
    const absl::Status status =
        coordinators_.Heard(*one, one->stub->ChangeConfigs(&context, call.request, &reply), context);
    if (status.ok()) {
      call.done(std::move(reply));
    } else {
      call.done(status);
    }
  }
}

}  // namespace paceline::shard
