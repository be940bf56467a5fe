#include "services/coordinator/service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/rpc/status.h"

namespace paceline::coordinator {
namespace {

// A status travels in a header, which gRPC limits to 8 KiB; most of what is beyond ASCII takes three times
// its size there.
constexpr size_t kMessageBytesMax = 2048;

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.message().size() <= kMessageBytesMax) return rpc::ToGrpc(status);
  return rpc::ToGrpc(
      absl::Status(status.code(), absl::StrCat(status.message().substr(0, kMessageBytesMax), " …")));
}

// When the core must have answered for the answer to arrive in the client's time.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const world::Clock& clock) {
  constexpr absl::Duration kMarginMax = absl::Milliseconds(100);
  const absl::Duration left = absl::FromChrono(context.deadline()) - absl::Now();
  // What gRPC makes of no deadline.
  if (left > absl::Hours(24 * 365)) return absl::InfiniteFuture();
  return clock.Now() + left - std::min(kMarginMax, left / 10);
}

}  // namespace

// A call that the core answers when it is time.
template <class Reply>
class CoordinatorService::WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  WaitingCall(CoordinatorService& service, Reply* reply)
      : service_(service), host_(service.host_), reply_(reply) {
    absl::MutexLock lock(&service_.mutex_);
    service_.waiting_calls_ += 1;
  }

  template <class Ask>
  void Start(Ask ask) {
    host_.Visit([&](CoordinatorCore& core) {
      ticket_ = ask(core, [this](absl::StatusOr<Reply> answer) {
        host_.Later([this, answer = std::move(answer)] { Answer(answer); });
      });
    });
  }

 private:
  void Answer(const absl::StatusOr<Reply>& answer) {
    if (answer.ok()) *reply_ = *answer;
    Finish(ToGrpc(answer.status()));
  }
  void OnCancel() override {
    host_.Visit([this](CoordinatorCore& core) { core.Abandon(ticket_); });
  }
  void OnDone() override {
    CoordinatorService& service = service_;
    delete this;
    absl::MutexLock lock(&service.mutex_);
    service.waiting_calls_ -= 1;
  }

  CoordinatorService& service_;
  CoreHost& host_;
  Reply* reply_;
  Ticket ticket_ = 0;  // read and written in visits only
};

template <class Reply, class Ask>
grpc::ServerUnaryReactor* CoordinatorService::Answer(Context* context, Reply* reply, Ask ask) {
  absl::StatusOr<Reply> answer = host_.Visit(ask);
  if (answer.ok()) *reply = *std::move(answer);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(answer.status()));
  return reactor;
}

template <class Reply, class Ask>
grpc::ServerUnaryReactor* CoordinatorService::AnswerLater(Context* context, Reply* reply, Ask ask) {
  auto* call = new WaitingCall<Reply>(*this, reply);  // deletes itself when gRPC is done with it
  const absl::Time deadline = DeadlineOf(*context, host_.clock());
  call->Start([&](CoordinatorCore& core, Done<Reply> done) { return ask(core, deadline, std::move(done)); });
  return call;
}

// -- methods --

grpc::ServerUnaryReactor* CoordinatorService::JoinCluster(Context* context,
                                                          const v1::JoinClusterRequest* request,
                                                          v1::JoinClusterReply* reply) {
  return Answer(context, reply, [&](CoordinatorCore& core) { return core.JoinCluster(*request); });
}

grpc::ServerUnaryReactor* CoordinatorService::Beat(Context* context, const v1::BeatRequest* request,
                                                   v1::BeatReply* reply) {
  return Answer(context, reply, [&](CoordinatorCore& core) { return core.Beat(*request); });
}

grpc::ServerUnaryReactor* CoordinatorService::GetCatalogue(Context* context, const v1::GetCatalogueRequest*,
                                                           v1::Catalogue* reply) {
  return Answer(context, reply, [](CoordinatorCore& core) { return core.GetCatalogue(); });
}

grpc::ServerUnaryReactor* CoordinatorService::Status(Context* context, const v1::StatusRequest*,
                                                     v1::StatusReply* reply) {
  return Answer(context, reply,
                [](CoordinatorCore& core) { return absl::StatusOr<v1::StatusReply>(core.Status()); });
}

grpc::ServerUnaryReactor* CoordinatorService::KeepAlive(Context* context, const v1::KeepAliveRequest* request,
                                                        v1::KeepAliveReply* reply) {
  return Answer(context, reply, [&](CoordinatorCore& core) { return core.KeepAlive(*request); });
}

grpc::ServerUnaryReactor* CoordinatorService::OpenTable(Context* context, const v1::OpenTableRequest* request,
                                                        v1::OpenTableReply* reply) {
  return Answer(context, reply, [&](CoordinatorCore& core) { return core.OpenTable(*request); });
}

grpc::ServerUnaryReactor* CoordinatorService::OpenSession(Context* context,
                                                          const v1::OpenSessionRequest* request,
                                                          v1::OpenSessionReply* reply) {
  return AnswerLater(context, reply, [&](CoordinatorCore& core, absl::Time deadline, auto done) {
    return core.OpenSession(*request, deadline, std::move(done));
  });
}

grpc::ServerUnaryReactor* CoordinatorService::JoinJob(Context* context, const v1::JoinJobRequest* request,
                                                      v1::JoinJobReply* reply) {
  return AnswerLater(context, reply, [&](CoordinatorCore& core, absl::Time deadline, auto done) {
    return core.JoinJob(*request, deadline, std::move(done));
  });
}

grpc::ServerUnaryReactor* CoordinatorService::FinishWorker(Context* context,
                                                           const v1::FinishWorkerRequest* request,
                                                           v1::FinishWorkerReply* reply) {
  return AnswerLater(context, reply, [&](CoordinatorCore& core, absl::Time deadline, auto done) {
    return core.FinishWorker(*request, deadline, std::move(done));
  });
}

grpc::ServerUnaryReactor* CoordinatorService::CloseSession(Context* context,
                                                           const v1::CloseSessionRequest* request,
                                                           v1::CloseSessionReply* reply) {
  return AnswerLater(context, reply, [&](CoordinatorCore& core, absl::Time deadline, auto done) {
    return core.CloseSession(*request, deadline, std::move(done));
  });
}

// -- watching the map --

// One WatchMap stream. A slow reader gets the newest map when it is ready for one, not all in between: what
// is kept for it is bounded by two maps.
class CoordinatorService::Watch final : public grpc::ServerWriteReactor<v1::Map>,
                                        public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(CoordinatorService& service) : service_(service) {}

  void Start(uint64_t known_version) {
    const absl::StatusOr<WatchId> id = service_.host_.Visit([&](CoordinatorCore& core) {
      return core.WatchMap(known_version, [this](const std::shared_ptr<const v1::Map>& map) {
        // Told after the visit, when the stream may have ended.
        service_.host_.Later([watch = shared_from_this(), map] { watch->OnMap(map); });
      });
    });
    if (!id.ok()) return End(id.status());
    absl::MutexLock lock(&mutex_);
    id_ = *id;
  }

  // Ends the stream, once what is being written is written. Does nothing the second time.
  void End(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    if (!end_.has_value()) end_ = ToGrpc(why);
    GoOn();
  }

 private:
  void OnMap(const std::shared_ptr<const v1::Map>& map) {
    absl::MutexLock lock(&mutex_);
    // Two visits may tell theirs in either order.
    if (map->version() <= newest_) return;
    newest_ = map->version();
    next_ = map;
    GoOn();
  }

  // The one next thing to do. gRPC's calls return at once and call back from elsewhere.
  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ != nullptr || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      Finish(*end_);
    } else if (next_ != nullptr) {
      writing_ = std::move(next_);
      StartWrite(writing_.get());
    }
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = nullptr;
    if (!ok && !end_.has_value()) end_ = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke");
    GoOn();
  }
  void OnCancel() override { End(absl::CancelledError("the client gave the call up")); }
  void OnDone() override {
    const WatchId id = [this] {
      absl::MutexLock lock(&mutex_);
      return id_;
    }();
    service_.host_.Visit([id](CoordinatorCore& core) { core.Unwatch(id); });
    const std::shared_ptr<Watch> last = shared_from_this();
    absl::MutexLock lock(&service_.mutex_);
    service_.watches_.erase(last);
  }

  CoordinatorService& service_;
  absl::Mutex mutex_;
  WatchId id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const v1::Map> next_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const v1::Map> writing_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerWriteReactor<v1::Map>* CoordinatorService::WatchMap(Context*,
                                                                const v1::WatchMapRequest* request) {
  auto watch = std::make_shared<Watch>(*this);
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    watches_.insert(watch);
    ended = ended_;
  }
  if (ended) {
    watch->End(absl::UnavailableError("the coordinator is stopping; try again when it is back"));
  } else {
    watch->Start(request->known_version());
  }
  return watch.get();
}

void CoordinatorService::EndWatches() {
  std::set<std::shared_ptr<Watch>> watches;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    watches = watches_;
  }
  for (const auto& watch : watches) {
    watch->End(absl::UnavailableError("the coordinator is stopping; try again when it is back"));
  }
}

void CoordinatorService::AwaitIdle() {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_calls_ == 0 && watches_.empty();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace paceline::coordinator
