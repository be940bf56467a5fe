#include "sdk/cpp/src/client_core.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/clock/consistency.h"

namespace paceline::sdk {

ClientCore::ClientCore(Session::Options options, CoordinatorApi& coordinator, world::Dialer& dialer,
                       const world::Clock& clock, world::Random& random, std::shared_ptr<Gate> gate)
    : context_(clock, random, dialer, std::move(gate)),
      pusher_(context_),
      puller_(context_, pusher_),
      session_(context_, coordinator, std::move(options),
               [this](std::shared_ptr<const Routes> routes) { InstallRoutes(std::move(routes)); }) {
  context_.fail = [this](absl::Status why) {
    if (context_.failure.ok()) context_.failure = std::move(why);
  };
  context_.want_map = [this](MapVersion version) { session_.WantMap(version); };
}

ClientCore::~ClientCore() {
  // What still refers to the core from outside finds the gate closed; its own tasks go with the timers.
  context_.timers.Clear();
}

void ClientCore::Open(Done done) {
  session_.Open(std::move(done));
}

void ClientCore::InstallRoutes(std::shared_ptr<const Routes> routes) {
  context_.routes = std::move(routes);
  pusher_.OnMap();
  puller_.OnMap();
}

absl::Status ClientCore::CheckWritable(absl::string_view what) const {
  if (!context_.failure.ok()) return context_.failure;
  if (context_.finished || finishing_ || sealed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": this worker has finished; connect again for more work"));
  }
  return absl::OkStatus();
}

absl::Status ClientCore::CheckMayFinish() const {
  if (!context_.failure.ok()) return context_.failure;
  if (!context_.worker) {
    return absl::FailedPreconditionError("finish: this client has no clock to leave; call Flush");
  }
  if (context_.finished || finishing_) {
    return absl::FailedPreconditionError("finish: this worker has finished, or is about to");
  }
  return absl::OkStatus();
}

void ClientCore::Push(PushCall call) {
  if (absl::Status writable = CheckWritable("push"); !writable.ok()) {
    context_.deferred.Run([done = std::move(call.done), writable]() mutable { done(writable); });
    return;
  }
  pusher_.Push(std::move(call));
}

void ClientCore::Pull(PullCall call, std::optional<Clock> min_clock) {
  if (!context_.failure.ok()) {
    context_.deferred.Run([sink = std::move(call.sink), why = context_.failure] { sink->Done(why); });
    return;
  }
  const auto* ssp = std::get_if<Ssp>(&call.table->consistency);
  call.min_clock = 0;
  if (min_clock.has_value()) {
    call.min_clock = *min_clock;
  } else if (ssp != nullptr && context_.worker) {
    call.min_clock = clock::MinClockFor(clock::Ssp{.staleness = ssp->staleness}, context_.worker_clock);
  }
  // Who asks for nothing in particular does not wait for himself either.
  call.own_writes = ssp != nullptr || min_clock.has_value();
  puller_.Pull(std::move(call));
}

absl::Status ClientCore::Tick() {
  if (absl::Status writable = CheckWritable("tick"); !writable.ok()) return writable;
  if (!context_.worker) {
    return absl::FailedPreconditionError(
        "tick: this client has no clock; connect with ClientOptions::workers of 1 or more");
  }
  ++context_.worker_clock;
  pusher_.OnTick();
  return absl::OkStatus();
}

void ClientCore::Flush(absl::Duration timeout, Done done) {
  if (!context_.failure.ok()) {
    context_.deferred.Run([done = std::move(done), why = context_.failure]() mutable { done(why); });
    return;
  }
  pusher_.Flush(timeout, std::move(done));
}

void ClientCore::Finish(absl::Duration timeout, Done done) {
  if (absl::Status may = CheckMayFinish(); !may.ok()) {
    context_.deferred.Run([done = std::move(done), may]() mutable { done(may); });
    return;
  }
  finishing_ = true;  // the numbers that are sealed now must be the last
  const absl::Time deadline = context_.Now() + timeout;
  if (Planted(Bug::kFinishedEarly)) return OnFlushed(absl::OkStatus(), deadline, std::move(done));
  pusher_.Flush(timeout,
                [this, gate = context_.gate, deadline, done = std::move(done)](absl::Status status) mutable {
                  gate->Enter([&] { OnFlushed(std::move(status), deadline, std::move(done)); });
                });
}

// An error of an earlier push is reported, but keeps nobody from finishing.
void ClientCore::OnFlushed(absl::Status status, absl::Time deadline, Done done) {
  const bool all_committed = (unacknowledged_bytes() == 0 || Planted(Bug::kFinishedEarly)) &&
                             context_.failure.ok() && !absl::IsDeadlineExceeded(status);
  if (!all_committed) {
    finishing_ = false;
    context_.deferred.Run([done = std::move(done), status = std::move(status)]() mutable { done(status); });
    return;
  }
  sealed_ = true;
  session_.Finish(
      pusher_.AllSeals(), deadline,
      [this, gate = context_.gate, status, done = std::move(done)](absl::Status finished) mutable {
        gate->Enter([&] { finishing_ = false; });
        done(finished.ok() ? std::move(status) : std::move(finished));
      });
}

void ClientCore::Close(std::string reason, absl::Duration timeout, Done done) {
  session_.Close(std::move(reason), timeout, std::move(done));
}

void ClientCore::Stop(absl::Status why) {
  context_.fail(std::move(why));
}

Deferred ClientCore::Leave() {
  if (!context_.failure.ok() && !failed_) {
    failed_ = true;
    pusher_.Fail(context_.failure);
    puller_.Fail(context_.failure);
    session_.Stop();
  }
  return std::exchange(context_.deferred, Deferred());
}

Stats ClientCore::stats() const {
  Stats stats = context_.stats;
  stats.bytes_unacknowledged = pusher_.unacknowledged_bytes();
  return stats;
}

}  // namespace paceline::sdk
