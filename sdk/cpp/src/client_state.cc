#include "sdk/cpp/src/client_state.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/world/system_random.h"
#include "sdk/cpp/src/callback_thread.h"
#include "sdk/cpp/src/complete_options.h"
#include "sdk/cpp/src/session/blocked_call.h"

namespace paceline::sdk {
namespace {

constexpr absl::Duration kCloseTimeout = absl::Seconds(1);
// A shard that reads has most likely read a frame by then. Beyond, to send it again costs less than to wait.
constexpr absl::Duration kWriteTimeout = absl::Milliseconds(20);
// A thread of this process that is not held up lets go of a frame much earlier.
constexpr absl::Duration kLetGoTimeout = absl::Seconds(1);

// A wait for one cause.
std::shared_ptr<const Causes> CausesOf(WaitCause cause, const std::shared_ptr<TimeLedger>& ledger) {
  Waited waited;
  waited.causes[cause] = absl::Nanoseconds(1);
  return std::make_shared<const Causes>(Causes{.waited = std::move(waited), .ledger = ledger});
}

// The loop's own thread does not look for frames without sleeping: threads that wait for them do.
dial::ShardDialer::Options DialOf(const ClientOptions& options) {
  return {.socket_dir = options.socket_dir,
          .direct = *options.direct_streams,
          .loop = {.spin_max = absl::ZeroDuration(), .first = ThisThreadRunsCallbacks},
          .say = options.on_notice};
}

uint64_t Seed() {
  return world::SystemRandom().Next();
}

}  // namespace

absl::Status ClientState::GoneError() {
  return absl::CancelledError("the client is gone; connect again");
}

ClientState::ClientState(ClientOptions options)
    : options_(std::move(options)),
      random_(Seed()),
      dialer_(loop_, DialOf(options_)),
      coordinator_(loop_, options_.coordinator) {}

ClientState::~ClientState() = default;

absl::StatusOr<std::shared_ptr<ClientState>> ClientState::Connect(ClientOptions options) {
  absl::StatusOr<ClientOptions> complete = CompleteOptions(std::move(options));
  if (!complete.ok()) return complete.status();
  // While a worker joins, the others may pass the clock at which it was to start. That session is over;
  // another one gets a later clock.
  constexpr int kTries = 5;
  for (int attempt = 1;; ++attempt) {
    std::shared_ptr<ClientState> state(new ClientState(*complete));
    const absl::Status opened = state->Open();
    if (opened.ok()) {
      // To wait for the others to join is no part of the training.
      state->With([](ClientCore& core) { core.times()->Begin(ThisThread(), world::MonotonicNow()); });
      return state;
    }
    state->Shut();
    if (!absl::IsAborted(opened) || attempt == kTries) return opened;
  }
}

absl::Status ClientState::Open() {
  if (!options_.record.empty()) {
    ABSL_ASSIGN_OR_RETURN(history_, history::HistoryFile::Create(options_.record, history::Program::kClient,
                                                                 options_.client_name));
  }
  {
    MutexLock lock(&mutex_);
    core_ = std::make_unique<ClientCore>(
        Session::Options{
            .coordinator = options_.coordinator,
            .job = options_.job,
            .client_name = options_.client_name,
            .workers = options_.workers,
            .rank = options_.rank,
            .backoff = {.initial = options_.retry.initial_backoff, .max = options_.retry.max_backoff},
            .timeout = options_.timeout,
            .start_timeout = options_.start_timeout,
            .slice_bytes = options_.slice_bytes},
        coordinator_, dialer_, clock_, random_, shared_from_this(), options_.cache_bytes_max);
    if (history_ != nullptr) core_->RecordTo(history_.get());
    core_->Notice(options_.on_notice);
  }
  thread_ = std::thread([this] { Run(); });
  return Await([](ClientCore& core, Done done) { core.Open(std::move(done)); }, nullptr, std::nullopt);
}

void ClientState::Run() {
  ThisThreadRunsCallbacks();
  {
    MutexLock lock(&mutex_);
    loop_thread_ = std::this_thread::get_id();
  }
  loop_.Run(
      clock_,
      [this] {
        MutexLock lock(&mutex_);
        return next_;
      },
      [this] { With([](ClientCore& core) { core.OnTime(); }); });
}

// -- visits --

void ClientState::Enter(absl::FunctionRef<void()> inside) {
  With([&](ClientCore&) { inside(); });
}

bool ClientState::CarryUntil(const DoneFn& done) {
  if (dialer_.Carries()) {
    const RunsCallbacksHere here;
    dialer_.CarryUntil(done);
  } else if (BlockingCall::IsHere()) {
    const RunsCallbacksHere here;
    return loop_.CarryUntil(done);
  }
  if (done()) return true;
  loop_.FallAsleep(done);  // its own thread goes on with operations beside this one
  return false;
}

bool ClientState::With(absl::FunctionRef<void(ClientCore&)> inside) {
  ThisThreadMayCarry(*this, [this] { return shared_from_this(); });
  Left left;
  {
    MutexLock lock(&mutex_);
    if (core_ == nullptr) return false;
    inside(*core_);
    left = Leave();
  }
  DoWithoutLock(std::move(left));
  return true;
}

ClientState::Left ClientState::Leave() {
  Left left;
  left.deferred = core_->Leave();
  const absl::Time next = core_->NextDeadline();
  left.wake = next < next_ && std::this_thread::get_id() != loop_thread_;
  next_ = next;
  if (waiting_ > 0) changed_.SignalAll();
  MutexLock lock(&routes_mutex_);
  if (routes_ != core_->routes()) routes_ = core_->routes();
  return left;
}

void ClientState::DoWithoutLock(Left left) {
  if (left.wake) loop_.Wake();
  std::move(left.deferred).RunAll();
  if (!BlockingCall::Sent()) OnSent();
}

absl::Status ClientState::Await(absl::FunctionRef<void(ClientCore&, Done)> start, double WaitSeconds::*waits,
                                std::optional<WaitCause> cause) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "this call blocks and was made from a callback, whose thread it would wait for; use another thread");
  }
  struct Ended {
    Notification notification;
    absl::Status status;
    std::shared_ptr<const Causes> causes;
  };
  const BlockingCall blocking(*this);
  auto ended = std::make_shared<Ended>();
  const absl::Time began = clock_.Now();
  std::shared_ptr<TimeLedger> times;
  const bool entered = With([&](ClientCore& core) {
    times = core.times();
    start(core, [ended](absl::Status status) {
      ended->status = std::move(status);
      ended->causes = internal::EndingCauses();
      ended->notification.Notify();
    });
  });
  if (!entered) return GoneError();
  internal::BlockedCall call;
  {
    const auto there = [&] { return ended->notification.HasBeenNotified(); };
    const internal::Carrying carrying(there);
    ended->notification.WaitForNotification();
  }
  if (cause.has_value()) {
    call.End((ended->causes == nullptr ? CausesOf(*cause, times) : ended->causes).get());
  }
  if (waits != nullptr) {
    With([&](ClientCore& core) { core.waits().*waits += absl::ToDoubleSeconds(clock_.Now() - began); });
  }
  return ended->status;
}

// -- room --

template <class Done>
bool ClientState::SleepUntil(absl::Duration timeout, const Done& done) {
  const DoneFn never(+[] { return false; });  // a visit says so, not an event by itself
  loop_.FallAsleep(never);
  ++waiting_;
  const bool in_time = changed_.AwaitFor(&mutex_, timeout, done);
  --waiting_;
  loop_.Awake(never);
  return in_time;
}

bool ClientState::HasRoom(uint64_t bytes) const {
  const uint64_t taken = core_->awaitable_bytes() + held_bytes_;
  return taken == 0 || taken + bytes <= options_.unacknowledged_bytes_max;
}

void ClientState::CountRoom(absl::Time began) {
  const absl::Time now = clock_.Now();
  core_->waits().back_pressure += absl::ToDoubleSeconds(now - began);
  Waited waited;
  waited.causes[WaitCause::kBackPressure] = now - began;
  if (const auto push = core_->last_push(); push != nullptr) waited.shard = push->waited.shard;
  core_->times()->Blocked(ThisThread(), {.from = began, .to = now, .blocked = now - began}, waited);
}

void ClientState::CountBound(absl::Time began) {
  const absl::Time now = clock_.Now();
  core_->waits().value_bound += absl::ToDoubleSeconds(now - began);
  Waited waited;
  waited.causes[WaitCause::kValueBound] = now - began;
  core_->times()->Blocked(ThisThread(), {.from = began, .to = now, .blocked = now - began}, waited);
}

std::string ClientState::Lacks(const Needed& needed) const {
  if (HasRoom(needed.bytes)) {
    return absl::StrCat("others to see what it has pushed to ", needed.table->Name(),
                        " (value bound); it waits for ",
                        core_->bounds().WaitsFor(*needed.table, *needed.weighed));
  }
  return absl::StrCat("room among ", core_->unacknowledged_bytes() + held_bytes_,
                      " unacknowledged bytes; it waits for ", core_->WaitsFor());
}

absl::Status ClientState::AwaitRoom(const Needed& needed, absl::Duration timeout) {
  // To look costs as much as the push has rows: only if it may fit by now.
  std::optional<uint64_t> did_not_fit;
  const auto within_bound = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (needed.weighed == nullptr) return true;
    if (did_not_fit == core_->bounds().news()) return false;
    did_not_fit.reset();
    const bool fits = core_->bounds().Fits(*needed.table, *needed.weighed);
    if (!fits) did_not_fit = core_->bounds().news();
    return fits;
  };
  const auto go_on = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return core_ == nullptr || !core_->failure().ok() || (HasRoom(needed.bytes) && within_bound());
  };
  if (go_on()) return core_ == nullptr ? GoneError() : absl::OkStatus();
  const bool for_room = !HasRoom(needed.bytes);
  if (internal::WaitingIsForbidden()) {
    if (!for_room) {
      return absl::ResourceExhaustedError(
          absl::StrCat("push: it waits for ", Lacks(needed),
                       ", and a callback may not wait; push from a thread of your own"));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "push: ", core_->unacknowledged_bytes() + held_bytes_, " bytes are unacknowledged, at most ",
        options_.unacknowledged_bytes_max,
        " may be, and a callback may not wait for room; push from a thread of your own, or after "
        "earlier pushes (PushOptions::after), or raise ClientOptions::unacknowledged_bytes_max"));
  }
  const absl::Time began = clock_.Now();
  const bool in_time = SleepUntil(timeout, go_on);
  if (core_ == nullptr) return GoneError();
  for_room ? CountRoom(began) : CountBound(began);
  if (in_time) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("push: waited ", absl::FormatDuration(timeout), " for ",
                                                  Lacks(needed),
                                                  ". Nothing of this push was taken: push it again"));
}

absl::Status ClientState::WithRoom(const Needed& needed, absl::Duration timeout,
                                   absl::FunctionRef<void(ClientCore&)> push) {
  uint64_t awaits = 0;
  if (needed.weighed != nullptr) {
    // A visit of its own: the question goes out before this thread waits for the answer.
    With([&](ClientCore& core) { awaits = core.bounds().Await(needed.table, needed.weighed); });
  }
  Left left;
  {
    MutexLock lock(&mutex_);
    const absl::Status room = AwaitRoom(needed, timeout);
    if (awaits != 0 && core_ != nullptr) core_->bounds().EndAwait(awaits);
    if (!room.ok()) return room;
    push(*core_);
    left = Leave();
  }
  DoWithoutLock(std::move(left));
  return absl::OkStatus();
}

// -- pushes that come after other operations --

absl::StatusOr<uint64_t> ClientState::Hold(uint64_t bytes, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  if (absl::Status room = AwaitRoom(bytes, timeout); !room.ok()) return room;
  held_.emplace(++holds_, bytes);
  core_->OnHeld(holds_);
  held_bytes_ += bytes;
  return holds_;
}

bool ClientState::Start(uint64_t held, absl::FunctionRef<void(ClientCore&)> push) {
  Left left;
  {
    MutexLock lock(&mutex_);
    held_bytes_ -= held_.extract(held).mapped();
    if (waiting_ > 0) changed_.SignalAll();
    if (core_ == nullptr) return false;
    push(*core_);
    core_->OnHeldEnded(held);
    left = Leave();
  }
  DoWithoutLock(std::move(left));
  return true;
}

void ClientState::Drop(uint64_t held, const absl::Status& why) {
  MutexLock lock(&mutex_);
  held_bytes_ -= held_.extract(held).mapped();
  if (dropped_.ok()) dropped_ = why;
  if (core_ != nullptr) core_->OnHeldEnded(held);
  if (waiting_ > 0) changed_.SignalAll();
}

absl::Status ClientState::AwaitHeld(absl::string_view what) {
  MutexLock lock(&mutex_);
  const uint64_t upto = holds_;
  const auto gone = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return core_ == nullptr || !core_->failure().ok() || held_.empty() || held_.begin()->first > upto;
  };
  if (gone() || internal::WaitingIsForbidden()) return absl::OkStatus();  // Await knows what to say
  const std::shared_ptr<TimeLedger> times = core_->times();
  internal::BlockedCall call;
  const bool in_time = SleepUntil(options_.timeout, gone);
  call.End(CausesOf(WaitCause::kNetwork, times).get());
  if (in_time) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      what, ": waited ", absl::FormatDuration(options_.timeout), " for ", held_.size(),
      " pushes that have not started: others before them have not ended; call it again to go on waiting"));
}

absl::Status ClientState::WithDropped(absl::Status status) {
  MutexLock lock(&mutex_);
  absl::Status dropped = std::exchange(dropped_, absl::OkStatus());
  return status.ok() ? std::move(dropped) : std::move(status);
}

void ClientState::TakeBack(std::shared_ptr<Batch> batch, Loan& loan) {
  if (Buffer copy = CopyIfShared(batch, [this](size_t bytes) { return Allocate(bytes); }); copy != nullptr) {
    With([&](ClientCore&) { sdk::TakeBack(*batch, std::move(copy)); });
  }
  batch.reset();
  // Once the stream has ended, what is awaited are threads of this process.
  for (int waits = 1; !loan.AwaitReturn(waits == 1 ? kWriteTimeout : kLetGoTimeout); ++waits) {
    const absl::Status why =
        absl::UnavailableError("it took no more of a frame, whose values a caller has lent and needs back");
    With([&](ClientCore& core) { core.BreakOffPushes(why, /*surely=*/waits > 1); });
  }
}

absl::Status ClientState::Flush() {
  if (absl::Status held = AwaitHeld("flush"); !held.ok()) return held;
  return WithDropped(
      Await([this](ClientCore& core, Done done) { core.Flush(options_.timeout, std::move(done)); },
            &WaitSeconds::commit, WaitCause::kNetwork));
}

absl::Status ClientState::Finish() {
  if (absl::Status held = AwaitHeld("finish"); !held.ok()) return held;
  absl::Status finished = WithDropped(
      Await([this](ClientCore& core, Done done) { core.Finish(options_.timeout, std::move(done)); },
            &WaitSeconds::commit));
  if (absl::IsDeadlineExceeded(finished)) return finished;
  // A worker that has finished can do no more work.
  absl::Status left =
      Await([this](ClientCore& core, Done done) { core.LeaveWork(options_.timeout, std::move(done)); });
  return finished.ok() ? std::move(left) : std::move(finished);
}

// -- the end --

void ClientState::Shut() {
  // What filters hold back is sent, if it takes no longer than a second.
  bool holds = false;
  With([&holds](ClientCore& core) { holds = core.filters().holds() && core.failure().ok(); });
  if (holds && !internal::WaitingIsForbidden()) {
    (void)Await([](ClientCore& core, Done done) { core.Flush(kCloseTimeout, std::move(done)); });
  }
  // First, so that operations under way end with this status and not with an effect of the session's end.
  With([](ClientCore& core) { core.Stop(GoneError()); });
  // A client that failed or never opened has nothing to close, and the coordinator may be away: one try, a
  // second.
  if (!internal::WaitingIsForbidden()) {
    (void)Await([](ClientCore& core, Done done) {
      core.Close("the client is done", kCloseTimeout, std::move(done));
    });
  }
  std::unique_ptr<ClientCore> core;
  {
    MutexLock lock(&mutex_);
    core = std::move(core_);
    next_ = absl::InfiniteFuture();
    changed_.SignalAll();
    MutexLock routes_lock(&routes_mutex_);
    routes_ = nullptr;
  }
  core = nullptr;  // lets go of its streams, which ends them
  dialer_.Stop(absl::CancelledError("the client is done"));
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
  history_ = nullptr;  // its file is whole when this returns
}

void ClientState::CountStreams(Stats& stats) const {
  stats.streams_shared_memory = dialer_.near_streams();
  stats.streams_direct = dialer_.direct_streams();
  stats.streams_grpc = dialer_.grpc_streams();
}

std::shared_ptr<const Routes> ClientState::routes() const {
  MutexLock lock(&routes_mutex_);
  return routes_;
}

}  // namespace paceline::sdk
