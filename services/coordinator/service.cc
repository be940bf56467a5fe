#include "services/coordinator/service.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/leadership.h"
#include "libs/rpc/status.h"
#include "libs/wire/texts.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// A status travels in a header, which gRPC limits to 8 KiB; most characters beyond ASCII take three times
// their size there.
constexpr size_t kMessageBytesMax = 2048;

grpc::Status ToGrpc(const absl::Status& status) {
  return rpc::ToGrpc(absl::Status(status.code(), Escaped(status.message(), kMessageBytesMax)));
}

rpc::Leadership LeadershipOf(Candidate& candidate) {
  return {.leads = candidate.leader() != nullptr, .leader = candidate.LeaderAddress()};
}

// The time by which the core must answer, so that the answer reaches the client before its deadline.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const world::Clock& clock) {
  constexpr absl::Duration kMarginMax = absl::Seconds(1);
  const absl::Duration left = rpc::Left(context.raw_deadline());
  if (left == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return clock.Now() + left - std::min(kMarginMax, left / 10);
}

}  // namespace

// A call that the core answers later.
template <class Reply>
class CoordinatorService::WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  WaitingCall(CoordinatorService& service, Context* context, Reply* reply)
      : service_(service), host_(service.host_), context_(context), reply_(reply) {
    const std::lock_guard lock(service_.mutex_);
    service_.waiting_calls_ += 1;
  }

  // `wrong`: the fault of the request, or OK.
  template <class Ask>
  void Start(const absl::Status& wrong, Ask ask) {
    host_.Visit([&](Candidate& candidate) {
      CoordinatorCore* core = candidate.leader();
      if (core == nullptr) return AnswerLater(candidate, candidate.StandsBy());
      if (!wrong.ok()) return AnswerLater(candidate, wrong);
      terms_ = candidate.terms();
      const Ticket ticket = ask(*core, [this, &candidate](absl::StatusOr<Reply> answer) {
        answered_ = true;
        AnswerLater(candidate, std::move(answer));
      });
      ticket_ = ticket;
    });
  }

 private:
  // REQUIRES: called from within a visit.
  void AnswerLater(Candidate& candidate, absl::StatusOr<Reply> answer) {
    host_.Later([this, leadership = LeadershipOf(candidate), answer = std::move(answer)] {
      if (answer.ok()) *reply_ = *answer;
      if (!answer.ok()) rpc::TellLeadership(*context_, leadership);
      Finish(ToGrpc(answer.status()));
    });
  }
  void OnCancel() override {
    host_.Visit([this](Candidate& candidate) {
      // Tickets belong to one core.
      CoordinatorCore* core = candidate.leader();
      if (core != nullptr && !answered_ && terms_ == candidate.terms()) core->Abandon(ticket_);
    });
  }
  void OnDone() override {
    CoordinatorService& service = service_;
    delete this;
    const std::lock_guard lock(service.mutex_);
    service.waiting_calls_ -= 1;
    service.idle_.notify_all();
  }

  CoordinatorService& service_;
  CoreHost& host_;
  Context* context_;
  Reply* reply_;
  // Accessed in visits only.
  Ticket ticket_ = 0;
  uint64_t terms_ = 0;
  bool answered_ = false;
};

template <class Reply, class Ask>
grpc::ServerUnaryReactor* CoordinatorService::Answer(Context* context, const Message& request, Reply* reply,
                                                     Ask ask) {
  rpc::Leadership leadership;
  const absl::Status texts = wire::CheckTexts(request);
  absl::StatusOr<Reply> answer = host_.Visit([&](Candidate& candidate) -> absl::StatusOr<Reply> {
    leadership = LeadershipOf(candidate);
    if (candidate.leader() == nullptr) return candidate.StandsBy();
    ABSL_RETURN_IF_ERROR(texts);
    return ask(*candidate.leader());
  });
  if (answer.ok()) *reply = *std::move(answer);
  if (!answer.ok()) rpc::TellLeadership(*context, leadership);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(answer.status()));
  return reactor;
}

template <class Reply, class Ask>
grpc::ServerUnaryReactor* CoordinatorService::AnswerLater(Context* context, const Message& request,
                                                          Reply* reply, Ask ask) {
  auto* call = new WaitingCall<Reply>(*this, context, reply);  // deletes itself when gRPC has finished it
  const absl::Time deadline = DeadlineOf(*context, host_.clock());
  call->Start(wire::CheckTexts(request),
              [&](CoordinatorCore& core, Done<Reply> done) { return ask(core, deadline, std::move(done)); });
  return call;
}

template <class Request, class Reply, class Ask>
grpc::ServerUnaryReactor* CoordinatorService::Pass(Context* context, const Request& request, Reply* reply,
                                                   Ask ask) {
  if constexpr (std::is_invocable_v<Ask, CoordinatorCore&, const Request&>) {
    return Answer(context, request, reply, [&](CoordinatorCore& core) { return ask(core, request); });
  } else {
    return AnswerLater(context, request, reply, [&](CoordinatorCore& core, absl::Time deadline, auto done) {
      return ask(core, request, deadline, std::move(done));
    });
  }
}

// -- methods --

#define CALL(Name)                                                                                       \
  grpc::ServerUnaryReactor* CoordinatorService::Name(Context* context, const v1::Name##Request* request, \
                                                     v1::Name##Reply* reply) {                           \
    return Pass(context, *request, reply,                                                                \
                [](CoordinatorCore& core,                                                                \
                   auto&&... given) -> decltype(core.Name(std::forward<decltype(given)>(given)...)) {    \
                  return core.Name(std::forward<decltype(given)>(given)...);                             \
                });                                                                                      \
  }
PACELINE_CALLS_OF_CORE(CALL)
#undef CALL

grpc::ServerUnaryReactor* CoordinatorService::GetCatalogue(Context* context,
                                                           const v1::GetCatalogueRequest* request,
                                                           v1::Catalogue* reply) {
  return Answer(context, *request, reply, [](CoordinatorCore& core) { return core.GetCatalogue(); });
}

v1::StatusReply CoordinatorService::StatusNow() {
  v1::StatusReply status = host_.Visit([](Candidate& candidate) { return candidate.Status(); });
  if (connections_ != nullptr && connections_->full) {
    status.add_problems(RefusesConnections("this coordinator", connections_->refused, rpc::LimitsNow().all));
  }
  return status;
}

grpc::ServerUnaryReactor* CoordinatorService::Status(Context* context, const v1::StatusRequest*,
                                                     v1::StatusReply* reply) {
  *reply = StatusNow();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// -- watching the map --

// One WatchMap stream. A slow reader gets the newest whole map when it is ready for one, and misses those in
// between: at most two of them are kept for it. Of maps that only say what has changed it misses none: if too
// many wait its stream ends, and the next one begins with the version that it knows by then.
class CoordinatorService::Watch final : public grpc::ServerWriteReactor<v1::Map>,
                                        public std::enable_shared_from_this<Watch> {
 public:
  Watch(CoordinatorService& service, Context* context) : service_(service), context_(context) {}

  void Start(const v1::WatchMapRequest& request) {
    uint64_t terms = 0;
    {
      const std::lock_guard lock(mutex_);
      written_ = request.known_version();
    }
    const absl::StatusOr<WatchId> id =
        service_.host_.Visit([&](Candidate& candidate) -> absl::StatusOr<WatchId> {
          if (candidate.leader() == nullptr) return candidate.StandsBy();
          terms = candidate.terms();
          return candidate.leader()->WatchMap(
              request.known_version(),
              [this](const std::shared_ptr<const v1::Map>& map) {
                // Runs after the visit, when the stream may have ended already.
                service_.host_.Later([watch = shared_from_this(), map] { watch->OnMap(map); });
              },
              request.takes_deltas());
        });
    if (!id.ok()) return End(id.status());
    const std::lock_guard lock(mutex_);
    id_ = *id;
    terms_ = terms;
  }

  // Ends the stream once the write under way is done. Does nothing the second time.
  void End(const absl::Status& why) {
    {
      // Also orders this after Start for ThreadSanitizer, which does not see gRPC's order.
      const std::lock_guard lock(mutex_);
      if (end_.has_value()) return GoOn();
    }
    const rpc::Leadership leadership = service_.host_.Visit(LeadershipOf);
    const std::lock_guard lock(mutex_);
    if (!end_.has_value()) {
      end_ = ToGrpc(why);
      rpc::TellLeadership(*context_, leadership);
    }
    GoOn();
  }

 private:
  static constexpr size_t kWaitingMax = 64;

  void OnMap(const std::shared_ptr<const v1::Map>& map) {
    const std::lock_guard lock(mutex_);
    if (map->version() <= written_) return;
    if (!map->has_delta()) waiting_.erase(waiting_.begin(), waiting_.lower_bound(map->version()));
    waiting_[map->version()] = map;
    if (waiting_.size() > kWaitingMax && !end_.has_value()) {
      end_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the client does not read its maps");
    }
    GoOn();
  }

  // The newest whole map, or else the change that follows what was written; nullptr: it is still on its way.
  // Two visits may deliver their maps in either order.
  std::shared_ptr<const v1::Map> TakeNext() {
    auto next = waiting_.end();
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (!it->second->has_delta()) next = it;
    }
    if (next == waiting_.end()) next = waiting_.begin();
    if (next == waiting_.end() || (next->second->has_delta() && next->second->delta().from() > written_)) {
      return nullptr;
    }
    std::shared_ptr<const v1::Map> map = next->second;
    waiting_.erase(waiting_.begin(), std::next(next));
    written_ = map->version();
    return map;
  }

  // Does the one next thing. gRPC's calls return at once and call back on other threads.
  void GoOn() {
    if (writing_ != nullptr || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      Finish(*end_);
    } else if ((writing_ = TakeNext()) != nullptr) {
      StartWrite(writing_.get());
    }
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = nullptr;
    if (!ok && !end_.has_value()) end_ = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke");
    GoOn();
  }
  void OnCancel() override { End(absl::CancelledError("the client gave the call up")); }
  void OnDone() override {
    const auto [id, terms] = [this] {
      const std::lock_guard lock(mutex_);
      return std::pair(id_, terms_);
    }();
    service_.host_.Visit([id = id, terms = terms](Candidate& candidate) {
      CoordinatorCore* core = candidate.leader();
      if (core != nullptr && terms == candidate.terms()) core->Unwatch(id);
    });
    const std::shared_ptr<Watch> last = shared_from_this();
    const std::lock_guard lock(service_.mutex_);
    service_.watches_.erase(last);
    service_.idle_.notify_all();
  }

  CoordinatorService& service_;
  Context* const context_;
  std::mutex mutex_;  // guards the members below
  WatchId id_ = 0;
  uint64_t terms_ = 0;                                          // of the candidate when it issued the id
  std::map<uint64_t, std::shared_ptr<const v1::Map>> waiting_;  // by version
  uint64_t written_ = 0;                                        // the version written last, or known at first
  std::shared_ptr<const v1::Map> writing_;
  std::optional<grpc::Status> end_;
  bool finished_ = false;
};

grpc::ServerWriteReactor<v1::Map>* CoordinatorService::WatchMap(Context* context,
                                                                const v1::WatchMapRequest* request) {
  auto watch = std::make_shared<Watch>(*this, context);
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    watches_.insert(watch);
    ended = ended_;
  }
  if (ended) {
    watch->End(absl::UnavailableError("the coordinator is stopping; try again when it is back"));
  } else {
    watch->Start(*request);
  }
  return watch.get();
}

void CoordinatorService::EndWatches(const absl::Status& why) {
  std::set<std::shared_ptr<Watch>> watches;
  {
    const std::lock_guard lock(mutex_);
    watches = watches_;
  }
  for (const auto& watch : watches) watch->End(why);
}

void CoordinatorService::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  EndWatches(absl::UnavailableError("the coordinator is stopping; try again when it is back"));
}

void CoordinatorService::AwaitIdle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return waiting_calls_ == 0 && watches_.empty(); });
}

}  // namespace paceline::coordinator
