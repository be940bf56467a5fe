#include "sdk/cpp/src/grpc_coordinator_api.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace paceline::sdk {
namespace {

std::chrono::system_clock::time_point DeadlineAfter(absl::Duration timeout) {
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(std::min(timeout, absl::Hours(24)));
}

absl::Status Named(const std::string& address, const grpc::Status& status) {
  // Only what the connection says of itself needs the address; the coordinator's own words stand for
  // themselves.
  const absl::Status plain = rpc::FromGrpc(status);
  if (!absl::IsUnavailable(plain) && !absl::IsDeadlineExceeded(plain)) return plain;
  return {plain.code(), absl::StrCat("coordinator ", address, ": ", plain.message())};
}

}  // namespace

// One unary call. Deletes itself with its answer.
template <class Reply>
class GrpcCoordinatorApi::Question : public rpc::Event {
 public:
  Question(rpc::EventLoop& loop, std::string address, Callback<Reply> done)
      : use_(loop), address_(std::move(address)), done_(std::move(done)) {}

  template <class Request, class Prepare>
  void Ask(v1::Coordinator::Stub& stub, Prepare prepare, const Request& request, absl::Duration timeout,
           grpc::CompletionQueue& queue) {
    context_.set_deadline(DeadlineAfter(timeout));
    call_ = (stub.*prepare)(&context_, request, &queue);
    call_->StartCall();
    call_->Finish(&reply_, &status_, static_cast<rpc::Event*>(this));
  }

  void Complete(bool) override {
    if (status_.ok()) {
      done_(std::move(reply_));
    } else {
      done_(Named(address_, status_));
    }
    delete this;
  }

 private:
  const rpc::EventLoop::Use use_;
  const std::string address_;
  Callback<Reply> done_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> call_;
  Reply reply_;
  grpc::Status status_;
};

// One stream of maps. Lives until it has ended, whatever becomes of its Watch.
class GrpcCoordinatorApi::MapStream : public rpc::Event, public std::enable_shared_from_this<MapStream> {
 public:
  MapStream(rpc::EventLoop& loop, std::string address, absl::AnyInvocable<void(v1::Map)> on_map,
            absl::AnyInvocable<void(absl::Status)> on_end)
      : use_(loop), address_(std::move(address)), on_map_(std::move(on_map)), on_end_(std::move(on_end)) {}

  void Start(v1::Coordinator::Stub& stub, uint64_t known, grpc::CompletionQueue& queue) {
    self_ = shared_from_this();
    v1::WatchMapRequest request;
    request.set_known_version(known);
    stream_ = stub.PrepareAsyncWatchMap(&context_, request, &queue);
    stream_->StartCall(Tag());
  }
  void Cancel() { context_.TryCancel(); }

  void Complete(bool ok) override {
    if (state_ == State::kFinishing) {
      const std::shared_ptr<MapStream> last = std::move(self_);
      on_end_(status_.ok() ? absl::UnavailableError(
                                 absl::StrCat("coordinator ", address_, ": ended the stream of maps"))
                           : Named(address_, status_));
      return;
    }
    if (!ok) {
      state_ = State::kFinishing;
      stream_->Finish(&status_, Tag());
      return;
    }
    if (state_ == State::kReading) on_map_(std::move(map_));
    state_ = State::kReading;
    map_.Clear();
    stream_->Read(&map_, Tag());
  }

 private:
  enum class State { kStarting, kReading, kFinishing };
  void* Tag() { return static_cast<rpc::Event*>(this); }

  const rpc::EventLoop::Use use_;
  const std::string address_;
  absl::AnyInvocable<void(v1::Map)> on_map_;
  absl::AnyInvocable<void(absl::Status)> on_end_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::Map>> stream_;
  v1::Map map_;
  grpc::Status status_;
  State state_ = State::kStarting;
  std::shared_ptr<MapStream> self_;  // while an operation is under way
};

class GrpcCoordinatorApi::MapWatch : public CoordinatorApi::Watch {
 public:
  explicit MapWatch(std::shared_ptr<MapStream> stream) : stream_(std::move(stream)) {}
  ~MapWatch() override { stream_->Cancel(); }

 private:
  const std::shared_ptr<MapStream> stream_;
};

GrpcCoordinatorApi::GrpcCoordinatorApi(rpc::EventLoop& loop, const std::string& address)
    : loop_(loop),
      address_(address),
      stub_(v1::Coordinator::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                                               rpc::ControlPlaneArguments()))) {}

template <class Reply, class Request, class Prepare>
void GrpcCoordinatorApi::Ask(Prepare prepare, const Request& request, absl::Duration timeout,
                             Callback<Reply> done) {
  auto* question = new Question<Reply>(loop_, address_, std::move(done));
  question->Ask(*stub_, prepare, request, timeout, loop_.queue());
}

void GrpcCoordinatorApi::OpenSession(const v1::OpenSessionRequest& request, absl::Duration timeout,
                                     Callback<v1::OpenSessionReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncOpenSession, request, timeout, std::move(done));
}

void GrpcCoordinatorApi::JoinJob(const v1::JoinJobRequest& request, absl::Duration timeout,
                                 Callback<v1::JoinJobReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncJoinJob, request, timeout, std::move(done));
}

void GrpcCoordinatorApi::KeepAlive(const v1::KeepAliveRequest& request, absl::Duration timeout,
                                   Callback<v1::KeepAliveReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncKeepAlive, request, timeout, std::move(done));
}

void GrpcCoordinatorApi::FinishWorker(const v1::FinishWorkerRequest& request, absl::Duration timeout,
                                      Callback<v1::FinishWorkerReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncFinishWorker, request, timeout, std::move(done));
}

void GrpcCoordinatorApi::CloseSession(const v1::CloseSessionRequest& request, absl::Duration timeout,
                                      Callback<v1::CloseSessionReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncCloseSession, request, timeout, std::move(done));
}

void GrpcCoordinatorApi::OpenTable(const v1::OpenTableRequest& request, absl::Duration timeout,
                                   Callback<v1::OpenTableReply> done) {
  Ask(&v1::Coordinator::Stub::PrepareAsyncOpenTable, request, timeout, std::move(done));
}

std::unique_ptr<CoordinatorApi::Watch> GrpcCoordinatorApi::WatchMap(
    uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map, absl::AnyInvocable<void(absl::Status)> on_end) {
  auto stream = std::make_shared<MapStream>(loop_, address_, std::move(on_map), std::move(on_end));
  stream->Start(*stub_, known, loop_.queue());
  return std::make_unique<MapWatch>(std::move(stream));
}

}  // namespace paceline::sdk
