#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "libs/world/random.h"
#include "paceline/stats.h"
#include "sdk/cpp/src/bound/value_bounds.h"
#include "sdk/cpp/src/pull/puller.h"
#include "sdk/cpp/src/push/filter/push_filters.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/coordinator_api.h"
#include "sdk/cpp/src/session/gate.h"
#include "sdk/cpp/src/session/session.h"
#include "sdk/cpp/src/session/wait_reports.h"
#include "sdk/cpp/src/subscribe/subscriber.h"
#include "sdk/cpp/src/work/work_client.h"

namespace paceline::sdk {

// A reduction as the user makes it.
struct ReduceCall {
  std::shared_ptr<const TableInfo> table;
  table::ReduceQuery query;
  std::optional<Clock> min_clock = {};  // unset: the bound of the table's consistency
  uint32_t priority = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  absl::AnyInvocable<void(absl::StatusOr<table::Partial>)> ended = {};  // called once, outside the gate
};

// The whole client as a state machine: no threads, no sockets, no clock of its own. Its owner provides the
// world, calls OnTime when NextDeadline has come, and lets every caller in through one Gate:
//
//   void Enter(absl::FunctionRef<void()> inside) override {
//     Deferred deferred;
//     {
//       MutexLock lock(&mutex_);
//       if (core_ == nullptr) return;
//       inside();
//       deferred = core_->Leave();
//     }
//     std::move(deferred).RunAll();
//   }
//
// Call all functions inside the gate. The core makes its callbacks outside of it.
class ClientCore {
 public:
  // References must outlive the core; the gate must also outlive the work that the core left to be done.
  ClientCore(Session::Options options, CoordinatorApi& coordinator, world::Dialer& dialer,
             const world::Clock& clock, world::Random& random, std::shared_ptr<Gate> gate,
             uint64_t cache_bytes_max, uint64_t cache_trial_rows = CacheTrial::kRows);
  ~ClientCore();

  // Reports events to `sink`, which must outlive the core. Call it before Open.
  void RecordTo(history::Sink* sink);

  // Reports text for operators: the cause of long waits, and other notices. Call it before
  // Open.
  void Notice(std::function<void(const std::string& text)> say);

  // Opens the session and joins. Call everything else after this has succeeded.
  void Open(Done done);
  void OpenTable(std::string name, const v1::TableSchema* schema, Consistency consistency,
                 Session::TableCallback done, const PushFilter& push_filter = {},
                 const filter::LinkFilters& link_filters = {}) {
    session_.OpenTable(std::move(name), schema, std::move(consistency), push_filter, link_filters,
                       std::move(done));
  }

  // See Session::AskOfTable.
  template <class Request, class Reply>
  void AskOfTable(Session::CallOf<Request, Reply> method, absl::string_view what, const std::string& name,
                  Request request, absl::AnyInvocable<void(absl::StatusOr<Reply>)> done) {
    session_.AskOfTable<Request, Reply>(method, what, name, std::move(request), std::move(done));
  }

  // Opens a work queue: `done` gets the number that work() takes.
  void OpenWork(std::string name, const v1::WorkSpec& spec, absl::Duration ahead,
                absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done);
  // REQUIRES: OpenWork has succeeded.
  WorkClient& work(uint32_t queue) { return *work_.at(queue); }
  // Leaves every work queue.
  void LeaveWork(absl::Duration timeout, Done done);
  // The owner keeps a push back that follows other operations, and has started or dropped it.
  void OnHeld(uint64_t id) { pusher_.OnHeld(id); }
  void OnHeldEnded(uint64_t id) { pusher_.OnHeldEnded(id); }

  // Numbers the push's parts at this client's clock and sends them; of a table with a push filter, what that
  // leaves. Never refuses for lack of room: check
  // awaitable_bytes() first, and for a table under a value bound bounds().Fits().
  void Push(PushCall call);
  // Breaks push streams whose carriers may hold frames that share lent values: see PushLink::BreakOff.
  void BreakOffPushes(const absl::Status& why, bool surely) { pusher_.BreakOff(why, surely); }
  // Raises the call's `min_clock` to the bound of the table's model, or to `min_clock` if that is given. Asks
  // the shards for every row; cache_read.h reads cached rows first.
  void Pull(PullCall call, std::optional<Clock> min_clock);
  // A pull whose answer is a reduction of rows. Its clock, and its own pushes, are those of this moment.
  void Reduce(ReduceCall call);
  // A push and a pull of the same batch: the rows come back to `read.sink` once the push is applied, as a
  // read at this client's clock, or at the next one, needs them.
  void PushPull(PushCall push, PullCall read, std::optional<Clock> min_clock, bool next_clock);
  // The bound and the rules of a read of the table at clock `reader`, or at this client's clock.
  struct ReadRules {
    CacheBound bound;
    bool own_writes = true;      // the rows must hold every push of this client
    bool cached = false;         // cached rows may be read, and pulled rows are kept
    bool refresh = false;        // shards may be asked which cached rows have changed
    uint32_t refresh_worth = 1;  // see RowCache::TakeRefreshes
  };
  ReadRules RulesOf(const TableInfo& table, std::optional<Clock> min_clock, Clock reader) const;
  ReadRules RulesOf(const TableInfo& table, std::optional<Clock> min_clock) const {
    return RulesOf(table, min_clock, context_.worker_clock);
  }
  RowCache& cache() { return context_.cache; }
  // The rates and bounds that the coordinator has told of.
  const TableChanges& changes() const { return context_.changes; }
  ValueBounds& bounds() { return bounds_; }
  // Counts rows that a read at clock `reader` took from the cache; the caller named this bound.
  void CountCached(const TableInfo& table, const ClockCounts& hits, Clock reader, std::optional<Clock> bound);
  absl::Status Tick();
  // Pushes what filters hold back.
  void SendHeldBack();
  PushFilters& filters() { return filters_; }
  // Both send what is held back first. Finish flushes, then sends the last tick.
  void Flush(absl::Duration timeout, Done done);
  void Finish(absl::Duration timeout, Done done);
  // Sends what is held back, and closes the session, with one try.
  void Close(std::string reason, absl::Duration timeout, Done done);
  // Ends everything under way with `why`.
  void Stop(absl::Status why);

  // The next time at which the owner must call OnTime. May have changed after every visit.
  absl::Time NextDeadline() const { return context_.timers.Next(); }
  void OnTime() { context_.timers.Run(context_.Now()); }

  // The last call of every visit: completes its consequences, and returns the work to do outside the gate.
  Deferred Leave();

  // Not OK: the client has ended, and why.
  const absl::Status& failure() const { return context_.failure; }
  const std::shared_ptr<const Routes>& routes() const { return context_.routes; }
  // Bytes of pushes that are not committed. Those of this clock for aggregated tables do not count: they wait
  // for the caller's own tick, so no caller may wait for them.
  uint64_t awaitable_bytes() const { return pusher_.awaitable_bytes(); }
  uint64_t unacknowledged_bytes() const { return pusher_.unacknowledged_bytes(); }
  // The shard that the oldest push waits for.
  std::string WaitsFor() const { return pusher_.WaitsFor(); }
  bool worker() const { return context_.worker; }
  Clock clock() const { return context_.worker_clock; }
  uint32_t rank() const { return context_.rank; }
  void ReportLoss(double loss) { context_.loss = loss; }
  SessionId session() const { return context_.session; }
  const std::string& data_lost() const { return context_.data_lost; }
  Stats stats() const;
  // For waits that only the caller can measure.
  WaitSeconds& waits() { return context_.stats.wait; }
  const std::shared_ptr<TimeLedger>& times() const { return context_.times; }
  // What the operation waited for that ended last; null: there was none.
  std::shared_ptr<const Causes> last_push() const { return pusher_.last_causes(); }

 private:
  // The part number of each piece of a push that was just made.
  std::vector<PartNumber> NumbersOf(const Batch& batch, Line line) const;
  void TellCache(const TableInfo& table, const Batch& batch);
  // The push counts against its table's value bound, if there is one.
  void CountPushed(const TableInfo& table, const Batch& batch, std::shared_ptr<const WeighedPush> weighed);
  void ApplyRules(PullCall& call, const ReadRules& rules);
  Clock CatchUp(const TableInfo& table, Clock reader) const;
  void InstallRoutes(std::shared_ptr<const Routes> routes);
  // Not OK if pushes and ticks are no longer allowed.
  absl::Status CheckWritable(absl::string_view what) const;
  absl::Status CheckMayPush(const TableInfo& table) const;
  absl::Status CheckMayFinish() const;
  // A Finish under way: flushed, then without exact reads, then sent to the coordinator.
  struct LastTick {
    absl::Status status;  // of the flush
    absl::Time deadline;
    Done done;
    Timers::Id timer;
  };
  void LookAtWaits();
  // -- client_work.cc --
  // The worker only waits for work: nobody may have to wait for its clock.
  bool OutOfWork() const;
  // Ticks once the slowest worker is at this one's clock, again and again while it is out of work.
  void FollowClocks();
  void OnFollowed(const absl::Status& status);
  void OnFlushed(absl::Status status, absl::Time deadline, Done done);
  void OnExactReadEnded();
  void TellLastTick();
  void EndFinish(absl::Status status);

  Context context_;
  ValueBounds bounds_;
  PushFilters filters_;
  Pusher pusher_;
  Puller puller_;
  Subscriber subscriber_;
  Session session_;
  std::optional<LastTick> last_tick_;
  std::map<uint32_t, std::unique_ptr<WorkClient>> work_;  // by queue
  bool following_ = false;
  WaitReports wait_reports_;
  bool finishing_ = false;
  bool sealed_ = false;  // the coordinator may have received the last tick: no part number may go beyond it
  bool failed_ = false;  // the pieces know of the failure
};

}  // namespace paceline::sdk
