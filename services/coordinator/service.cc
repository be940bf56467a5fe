#include "services/coordinator/service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/rpc/status.h"

namespace paceline::coordinator {
namespace {

grpc::Status Gone() {
  return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping; try again"};
}

}  // namespace

// A request that is answered later. Deleted by gRPC's last call, OnDone.
template <class Reply>
class Service::Waiting : public grpc::ServerUnaryReactor {
 public:
  Waiting(const Enter& enter, Reply* reply) : enter_(enter), reply_(reply) {}

  void Answered(absl::StatusOr<Reply> outcome) {
    if (outcome.ok()) *reply_ = *std::move(outcome);
    Finish(rpc::ToGrpc(outcome.status()));
  }
  // Under the coordinator's lock, as OnCancel reads it.
  void set_ticket(Ticket ticket) { ticket_ = ticket; }

  void OnCancel() override {
    enter_([this](CoordinatorCore& core) { core.Abandon(ticket_); });
  }
  void OnDone() override { delete this; }

 private:
  const Enter& enter_;
  Reply* const reply_;
  Ticket ticket_{};
};

template <class Reply>
grpc::ServerUnaryReactor* Service::Answer(grpc::CallbackServerContext* context, Reply* reply,
                                          absl::FunctionRef<absl::StatusOr<Reply>(CoordinatorCore&)> ask) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  grpc::Status status = Gone();
  enter_([&](CoordinatorCore& core) {
    absl::StatusOr<Reply> outcome = ask(core);
    if (outcome.ok()) *reply = *std::move(outcome);
    status = rpc::ToGrpc(outcome.status());
  });
  reactor->Finish(status);
  return reactor;
}

template <class Request, class Reply>
grpc::ServerUnaryReactor* Service::Wait(grpc::CallbackServerContext* context, const Request& request,
                                        Reply* reply,
                                        Ticket (CoordinatorCore::*ask)(const Request&, absl::Time,
                                                                       Done<Reply>)) {
  auto* waiting = new Waiting<Reply>(enter_, reply);
  const auto left = context->deadline() - std::chrono::system_clock::now();
  const bool entered = enter_([&](CoordinatorCore& core) {
    waiting->set_ticket(
        (core.*ask)(request, clock_.Now() + absl::FromChrono(left),
                    [waiting](absl::StatusOr<Reply> outcome) { waiting->Answered(std::move(outcome)); }));
  });
  if (!entered) waiting->Finish(Gone());
  return waiting;
}

grpc::ServerUnaryReactor* Service::JoinCluster(grpc::CallbackServerContext* context,
                                               const v1::JoinClusterRequest* request,
                                               v1::JoinClusterReply* reply) {
  return Answer<v1::JoinClusterReply>(context, reply,
                                      [&](CoordinatorCore& core) { return core.JoinCluster(*request); });
}

grpc::ServerUnaryReactor* Service::Beat(grpc::CallbackServerContext* context, const v1::BeatRequest* request,
                                        v1::BeatReply* reply) {
  return Answer<v1::BeatReply>(context, reply, [&](CoordinatorCore& core) { return core.Beat(*request); });
}

grpc::ServerUnaryReactor* Service::GetCatalogue(grpc::CallbackServerContext* context,
                                                const v1::GetCatalogueRequest*, v1::Catalogue* reply) {
  return Answer<v1::Catalogue>(context, reply, [](CoordinatorCore& core) { return core.GetCatalogue(); });
}

grpc::ServerUnaryReactor* Service::Status(grpc::CallbackServerContext* context, const v1::StatusRequest*,
                                          v1::StatusReply* reply) {
  return Answer<v1::StatusReply>(
      context, reply, [](CoordinatorCore& core) -> absl::StatusOr<v1::StatusReply> { return core.Status(); });
}

grpc::ServerUnaryReactor* Service::OpenSession(grpc::CallbackServerContext* context,
                                               const v1::OpenSessionRequest* request,
                                               v1::OpenSessionReply* reply) {
  return Wait(context, *request, reply, &CoordinatorCore::OpenSession);
}

grpc::ServerUnaryReactor* Service::JoinJob(grpc::CallbackServerContext* context,
                                           const v1::JoinJobRequest* request, v1::JoinJobReply* reply) {
  return Wait(context, *request, reply, &CoordinatorCore::JoinJob);
}

grpc::ServerUnaryReactor* Service::FinishWorker(grpc::CallbackServerContext* context,
                                                const v1::FinishWorkerRequest* request,
                                                v1::FinishWorkerReply* reply) {
  return Wait(context, *request, reply, &CoordinatorCore::FinishWorker);
}

grpc::ServerUnaryReactor* Service::CloseSession(grpc::CallbackServerContext* context,
                                                const v1::CloseSessionRequest* request,
                                                v1::CloseSessionReply* reply) {
  return Wait(context, *request, reply, &CoordinatorCore::CloseSession);
}

grpc::ServerUnaryReactor* Service::KeepAlive(grpc::CallbackServerContext* context,
                                             const v1::KeepAliveRequest* request, v1::KeepAliveReply* reply) {
  return Answer<v1::KeepAliveReply>(context, reply,
                                    [&](CoordinatorCore& core) { return core.KeepAlive(*request); });
}

grpc::ServerUnaryReactor* Service::OpenTable(grpc::CallbackServerContext* context,
                                             const v1::OpenTableRequest* request, v1::OpenTableReply* reply) {
  return Answer<v1::OpenTableReply>(context, reply,
                                    [&](CoordinatorCore& core) { return core.OpenTable(*request); });
}

// One stream of maps. A map that a newer one overtakes before it is written is skipped. Deleted by OnDone.
class Service::Watcher : public grpc::ServerWriteReactor<v1::Map> {
 public:
  Watcher(const Enter& enter, uint64_t known) : enter_(enter) {
    absl::Status status = absl::UnavailableError("the coordinator is stopping; try again");
    enter_([&](CoordinatorCore& core) {
      auto watch =
          core.WatchMap(known, [this](std::shared_ptr<const v1::Map> map) { OnMap(std::move(map)); });
      status = watch.status();
      if (watch.ok()) watch_ = *watch;
    });
    if (!status.ok()) End(rpc::ToGrpc(status));
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = nullptr;
    if (ok) WriteNext();
  }
  void OnCancel() override {
    enter_([this](CoordinatorCore& core) { core.Unwatch(watch_); });
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    // Also where the stream ended without a cancellation; unknown ids do no harm.
    enter_([this](CoordinatorCore& core) { core.Unwatch(watch_); });
    delete this;
  }

 private:
  void OnMap(std::shared_ptr<const v1::Map> map) {
    absl::MutexLock lock(&mutex_);
    next_ = std::move(map);
    WriteNext();
  }
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_ || writing_ != nullptr || next_ == nullptr) return;
    writing_ = std::exchange(next_, nullptr);
    StartWrite(writing_.get());
  }
  void End(grpc::Status status) {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(ended_, true)) return;
    Finish(std::move(status));
  }

  const Enter& enter_;
  WatchId watch_{};
  absl::Mutex mutex_;
  std::shared_ptr<const v1::Map> next_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const v1::Map> writing_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerWriteReactor<v1::Map>* Service::WatchMap(grpc::CallbackServerContext*,
                                                     const v1::WatchMapRequest* request) {
  return new Watcher(enter_, request->known_version());
}

}  // namespace paceline::coordinator
