#include "sdk/cpp/src/grpc_coordinator_api.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/deadline.h"

namespace paceline::sdk {

// One unary call. Deletes itself with its answer.
template <class Reply>
class GrpcCoordinatorApi::Question : public rpc::Event {
 public:
  Question(rpc::EventLoop& loop, std::shared_ptr<rpc::Coordinators> coordinators, Callback<Reply> done)
      : use_(loop),
        coordinators_(std::move(coordinators)),
        asked_(coordinators_->Current()),
        done_(std::move(done)) {}

  template <class Request, class Prepare>
  void Ask(Prepare prepare, const Request& request, absl::Duration timeout, grpc::CompletionQueue& queue) {
    context_.set_deadline(rpc::After(timeout));
    call_ = ((*asked_->stub).*prepare)(&context_, request, &queue);
    call_->StartCall();
    call_->Finish(&reply_, &status_, Tag());
  }

  void Complete(bool) override {
    const absl::Status heard = coordinators_->Heard(*asked_, status_, context_);
    if (heard.ok()) {
      done_(std::move(reply_));
    } else {
      done_(heard);
    }
    delete this;
  }

 private:
  const rpc::EventLoop::Use use_;
  const std::shared_ptr<rpc::Coordinators> coordinators_;
  const std::shared_ptr<const rpc::Coordinators::One> asked_;
  Callback<Reply> done_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> call_;
  Reply reply_;
  grpc::Status status_;
};

// One stream of maps. Lives until it has ended, even if its Watch is gone.
class GrpcCoordinatorApi::MapStream : public rpc::Event, public std::enable_shared_from_this<MapStream> {
 public:
  MapStream(rpc::EventLoop& loop, std::shared_ptr<rpc::Coordinators> coordinators,
            absl::AnyInvocable<void(v1::Map)> on_map, absl::AnyInvocable<void(absl::Status)> on_end)
      : use_(loop),
        coordinators_(std::move(coordinators)),
        asked_(coordinators_->Current()),
        on_map_(std::move(on_map)),
        on_end_(std::move(on_end)) {}

  void Start(uint64_t known, grpc::CompletionQueue& queue) {
    self_ = shared_from_this();
    v1::WatchMapRequest request;
    request.set_known_version(known);
    request.set_takes_deltas(true);
    stream_ = asked_->stub->PrepareAsyncWatchMap(&context_, request, &queue);
    stream_->StartCall(Tag());
  }
  void Cancel() { context_.TryCancel(); }

  void Complete(bool ok) override {
    if (state_ == State::kFinishing) {
      const std::shared_ptr<MapStream> last = std::move(self_);
      const absl::Status heard = coordinators_->Heard(*asked_, status_, context_);
      on_end_(!heard.ok() ? heard
                          : absl::UnavailableError(
                                absl::StrCat("coordinator ", asked_->address, ": ended the stream of maps")));
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

  const rpc::EventLoop::Use use_;
  const std::shared_ptr<rpc::Coordinators> coordinators_;
  const std::shared_ptr<const rpc::Coordinators::One> asked_;
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

GrpcCoordinatorApi::GrpcCoordinatorApi(rpc::EventLoop& loop, const std::string& addresses)
    : loop_(loop), coordinators_(std::make_shared<rpc::Coordinators>(addresses)) {}

template <class Reply, class Request, class Prepare>
void GrpcCoordinatorApi::Ask(Prepare prepare, const Request& request, absl::Duration timeout,
                             Callback<Reply> done) {
  auto* question = new Question<Reply>(loop_, coordinators_, std::move(done));
  question->Ask(prepare, request, timeout, loop_.queue());
}

#define CALL(Name)                                                                        \
  void GrpcCoordinatorApi::Name(const v1::Name##Request& request, absl::Duration timeout, \
                                Callback<v1::Name##Reply> done) {                         \
    Ask(&v1::Coordinator::Stub::PrepareAsync##Name, request, timeout, std::move(done));   \
  }
PACELINE_CALLS_OF_CLIENTS(CALL)
#undef CALL

std::unique_ptr<CoordinatorApi::Watch> GrpcCoordinatorApi::WatchMap(
    uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map, absl::AnyInvocable<void(absl::Status)> on_end) {
  auto stream = std::make_shared<MapStream>(loop_, coordinators_, std::move(on_map), std::move(on_end));
  stream->Start(known, loop_.queue());
  return std::make_unique<MapWatch>(std::move(stream));
}

}  // namespace paceline::sdk
