#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "libs/world/random.h"
#include "paceline/stats.h"
#include "sdk/cpp/src/context.h"
#include "sdk/cpp/src/coordinator_api.h"
#include "sdk/cpp/src/gate.h"
#include "sdk/cpp/src/puller.h"
#include "sdk/cpp/src/pusher.h"
#include "sdk/cpp/src/session.h"

namespace paceline::sdk {

// The client, whole, as a state machine: no threads, no sockets, no clock of its own. Its owner provides the
// world, calls OnTime when NextDeadline has come, and lets everything in through one Gate:
//
//   void Enter(absl::FunctionRef<void()> inside) override {
//     Deferred deferred;
//     {
//       absl::MutexLock lock(&mutex_);
//       if (core_ == nullptr) return;
//       inside();
//       deferred = core_->Leave();
//     }
//     std::move(deferred).RunAll();
//   }
//
// All functions are for inside the gate. Callbacks come outside of it.
class ClientCore {
 public:
  // References must outlive the core, and the gate too what it left to be done.
  ClientCore(Session::Options options, CoordinatorApi& coordinator, world::Dialer& dialer,
             const world::Clock& clock, world::Random& random, std::shared_ptr<Gate> gate);
  ~ClientCore();

  // Opens the session, joins. Everything else comes after its success.
  void Open(Done done);
  void OpenTable(std::string name, const v1::TableSchema* schema, Consistency consistency,
                 Session::TableCallback done) {
    session_.OpenTable(std::move(name), schema, std::move(consistency), std::move(done));
  }

  // Numbers the push's parts at this client's clock and sends them. Never refuses for lack of room: ask
  // unacknowledged_bytes() first.
  void Push(PushCall call);
  // `min_clock` of the call is overwritten unless given.
  void Pull(PullCall call, std::optional<Clock> min_clock);
  absl::Status Tick();
  void Flush(absl::Duration timeout, Done done);
  // Flushes, then the last tick.
  void Finish(absl::Duration timeout, Done done);
  // Closes the session: one try.
  void Close(std::string reason, absl::Duration timeout, Done done);
  // Ends everything under way with `why`.
  void Stop(absl::Status why);

  // The next time OnTime wants to be called. May have changed after every visit.
  absl::Time NextDeadline() const { return context_.timers.Next(); }
  void OnTime() { context_.timers.Run(context_.Now()); }

  // The last call of every visit: settles what it led to, and returns what is to be done outside.
  Deferred Leave();

  // Not OK: the client is over, and why.
  const absl::Status& failure() const { return context_.failure; }
  const std::shared_ptr<const Routes>& routes() const { return context_.routes; }
  uint64_t unacknowledged_bytes() const { return pusher_.unacknowledged_bytes(); }
  // Whom the oldest push waits for.
  std::string WaitsFor() const { return pusher_.WaitsFor(); }
  bool worker() const { return context_.worker; }
  Clock clock() const { return context_.worker_clock; }
  uint32_t rank() const { return context_.rank; }
  SessionId session() const { return context_.session; }
  Stats stats() const;
  // For waits that only the caller knows of.
  WaitSeconds& waits() { return context_.stats.wait; }

 private:
  void InstallRoutes(std::shared_ptr<const Routes> routes);
  // Not OK if nothing may be pushed or ticked any more.
  absl::Status CheckWritable(absl::string_view what) const;
  absl::Status CheckMayFinish() const;
  void OnFlushed(absl::Status status, absl::Time deadline, Done done);

  Context context_;
  Pusher pusher_;
  Puller puller_;
  Session session_;
  bool finishing_ = false;
  bool sealed_ = false;  // the last tick may have been heard: no number beyond it
  bool failed_ = false;  // the pieces have been told
};

}  // namespace paceline::sdk
