#include "sdk/cpp/src/client_state.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/world/system_random.h"
#include "sdk/cpp/src/callback_thread.h"

namespace paceline::sdk {
namespace {

constexpr absl::Duration kCloseTimeout = absl::Seconds(1);

uint64_t Seed() {
  return world::SystemRandom().Next();
}

absl::StatusOr<ClientOptions> Complete(ClientOptions options) {
  if (options.coordinator.empty()) {
    const char* named = std::getenv("PACELINE_COORDINATOR");
    options.coordinator = named == nullptr ? "" : named;
  }
  if (options.coordinator.empty()) {
    return absl::InvalidArgumentError(
        "coordinator: not given; set ClientOptions::coordinator or PACELINE_COORDINATOR to host:port");
  }
  if (options.job.empty()) {
    return absl::InvalidArgumentError("job: empty; set ClientOptions::job to the job's name");
  }
  if (options.client_name.empty()) {
    char host[256] = "unknown";
    gethostname(host, sizeof(host) - 1);
    options.client_name = absl::StrCat(host, ":", getpid());
  }
  return options;
}

}  // namespace

absl::Status ClientState::GoneError() {
  return absl::CancelledError("the client is gone; connect again");
}

ClientState::ClientState(ClientOptions options)
    : options_(std::move(options)), random_(Seed()), coordinator_(loop_, options_.coordinator) {}

ClientState::~ClientState() = default;

absl::StatusOr<std::shared_ptr<ClientState>> ClientState::Connect(ClientOptions options) {
  absl::StatusOr<ClientOptions> complete = Complete(std::move(options));
  if (!complete.ok()) return complete.status();
  // While a worker joins, the others may pass the clock it was to start at. That session is over; another one
  // is told a later clock.
  constexpr int kTries = 5;
  for (int attempt = 1;; ++attempt) {
    std::shared_ptr<ClientState> state(new ClientState(*complete));
    const absl::Status opened = state->Open();
    if (opened.ok()) return state;
    state->Shut();
    if (!absl::IsAborted(opened) || attempt == kTries) return opened;
  }
}

absl::Status ClientState::Open() {
  {
    absl::MutexLock lock(&mutex_);
    core_ = std::make_unique<ClientCore>(Session::Options{.coordinator = options_.coordinator,
                                                          .job = options_.job,
                                                          .client_name = options_.client_name,
                                                          .token = options_.token,
                                                          .workers = options_.workers,
                                                          .rank = options_.rank,
                                                          .timeout = options_.timeout,
                                                          .start_timeout = options_.start_timeout},
                                         coordinator_, dialer_, clock_, random_, shared_from_this());
  }
  thread_ = std::thread([this] { Run(); });
  return Await([](ClientCore& core, Done done) { core.Open(std::move(done)); });
}

void ClientState::Run() {
  ThisThreadRunsCallbacks();
  loop_.Run(
      clock_,
      [this] {
        absl::MutexLock lock(&mutex_);
        return next_;
      },
      [this] { With([](ClientCore& core) { core.OnTime(); }); });
}

void ClientState::Enter(absl::FunctionRef<void()> inside) {
  With([&](ClientCore&) { inside(); });
}

bool ClientState::With(absl::FunctionRef<void(ClientCore&)> inside) {
  Deferred deferred;
  bool sooner = false;
  {
    absl::MutexLock lock(&mutex_);
    if (core_ == nullptr) return false;
    inside(*core_);
    deferred = core_->Leave();
    const absl::Time next = core_->NextDeadline();
    sooner = next < next_;
    next_ = next;
  }
  if (sooner && std::this_thread::get_id() != thread_.get_id()) loop_.Wake();
  std::move(deferred).RunAll();
  return true;
}

absl::Status ClientState::Await(absl::FunctionRef<void(ClientCore&, Done)> start,
                                double WaitSeconds::*waits) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "this call blocks and was made from a callback, whose thread it would wait for; use another thread");
  }
  struct Ended {
    absl::Notification notification;
    absl::Status status;
  };
  auto ended = std::make_shared<Ended>();
  const absl::Time began = clock_.Now();
  const bool entered = With([&](ClientCore& core) {
    start(core, [ended](absl::Status status) {
      ended->status = std::move(status);
      ended->notification.Notify();
    });
  });
  if (!entered) return GoneError();
  ended->notification.WaitForNotification();
  if (waits != nullptr) {
    With([&](ClientCore& core) { core.waits().*waits += absl::ToDoubleSeconds(clock_.Now() - began); });
  }
  return ended->status;
}

absl::Status ClientState::AwaitRoom(uint64_t bytes, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return core_ == nullptr || !core_->failure().ok() || core_->unacknowledged_bytes() == 0 ||
           core_->unacknowledged_bytes() + bytes <= options_.unacknowledged_bytes_max;
  };
  if (!room()) {
    if (internal::WaitingIsForbidden()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "push: ", core_->unacknowledged_bytes(), " bytes are unacknowledged, at most ",
          options_.unacknowledged_bytes_max, " may be; push from a thread that may wait for room"));
    }
    const absl::Time began = clock_.Now();
    const bool there = mutex_.AwaitWithTimeout(absl::Condition(&room), timeout);
    if (core_ == nullptr) return GoneError();
    core_->waits().back_pressure += absl::ToDoubleSeconds(clock_.Now() - began);
    if (!there) {
      return absl::DeadlineExceededError(absl::StrCat("push: waited ", absl::FormatDuration(timeout),
                                                      " for room among unacknowledged bytes; it waits for ",
                                                      core_->WaitsFor()));
    }
  }
  return core_ == nullptr ? GoneError() : core_->failure();
}

void ClientState::Shut() {
  // A client that failed or never opened has nothing to close, and the coordinator may be away: one try, a
  // second.
  if (!internal::WaitingIsForbidden()) {
    (void)Await([](ClientCore& core, Done done) {
      core.Close("the client is done", kCloseTimeout, std::move(done));
    });
  }
  With([](ClientCore& core) { core.Stop(GoneError()); });
  std::unique_ptr<ClientCore> core;
  {
    absl::MutexLock lock(&mutex_);
    core = std::move(core_);
    next_ = absl::InfiniteFuture();
  }
  core = nullptr;  // lets go of its streams, which ends them
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Routes> ClientState::routes() {
  std::shared_ptr<const Routes> routes;
  With([&](ClientCore& core) { routes = core.routes(); });
  return routes;
}

}  // namespace paceline::sdk
