#pragma once

#include <functional>
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
#include "sdk/cpp/src/wait_reports.h"

namespace paceline::sdk {

// The client, whole, as a state machine: no threads, no sockets, no clock of its own. Its owner provides the
// world, calls OnTime when NextDeadline has come, and lets everything in through one Gate:
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
// All functions are for inside the gate. Callbacks come outside of it.
class ClientCore {
 public:
  // References must outlive the core, and the gate too what it left to be done.
  ClientCore(Session::Options options, CoordinatorApi& coordinator, world::Dialer& dialer,
             const world::Clock& clock, world::Random& random, std::shared_ptr<Gate> gate,
             uint64_t cache_bytes_max, uint64_t cache_trial_rows = CacheTrial::kRows);
  ~ClientCore();

  // Tells what happens to `sink`, which must outlive the core. Before Open.
  void RecordTo(record::Sink* sink);

  // Says to people, in words, for whom operations wait that take long, and what else they want to hear.
  // Before Open.
  void Notice(std::function<void(const std::string& text)> say);

  // Opens the session, joins. Everything else comes after its success.
  void Open(Done done);
  void OpenTable(std::string name, const v1::TableSchema* schema, Consistency consistency,
                 Session::TableCallback done) {
    session_.OpenTable(std::move(name), schema, std::move(consistency), std::move(done));
  }

  void DropTable(const std::string& name, Done done) { session_.DropTable(name, std::move(done)); }
  void ChangeRule(const std::string& name, v1::ChangeRuleRequest change,
                  absl::AnyInvocable<void(absl::StatusOr<Clock>)> done) {
    session_.ChangeRule(name, std::move(change), std::move(done));
  }

  // Numbers the push's parts at this client's clock and sends them. Never refuses for lack of room: ask
  // awaitable_bytes() first.
  void Push(PushCall call);
  // `min_clock` of the call is overwritten unless given. Asks the shards for every row; cache_read.h reads
  // what is cached first.
  void Pull(PullCall call, std::optional<Clock> min_clock);
  // Both in one: the rows of the batch come back to `read.sink` once the push is applied, as they are to be
  // read at this client's clock, or at the next one.
  void PushPull(PushCall push, PullCall read, std::optional<Clock> min_clock, bool next_clock);
  // What a read of the table asks for at clock `reader`, or at this client's clock.
  struct ReadRules {
    CacheBound bound;
    bool own_writes = true;      // a shard is asked for rows with every push of this client
    bool cached = false;         // cached rows may be read, and what is pulled is kept
    bool refresh = false;        // shards may be asked which cached rows have changed
    uint32_t refresh_worth = 1;  // see RowCache::TakeRefreshes
  };
  ReadRules RulesOf(const TableInfo& table, std::optional<Clock> min_clock, Clock reader) const;
  ReadRules RulesOf(const TableInfo& table, std::optional<Clock> min_clock) const {
    return RulesOf(table, min_clock, context_.worker_clock);
  }
  RowCache& cache() { return context_.cache; }
  // Rows that were read from the cache, by a read at clock `reader` for which the caller named this bound.
  void CountCached(const TableInfo& table, const ClockCounts& hits, Clock reader, std::optional<Clock> bound);
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
  // Of pushes that are not committed, but those of this clock for aggregated tables: these wait for the
  // caller's own tick, so nobody may wait for them.
  uint64_t awaitable_bytes() const { return pusher_.awaitable_bytes(); }
  uint64_t unacknowledged_bytes() const { return pusher_.unacknowledged_bytes(); }
  // Whom the oldest push waits for.
  std::string WaitsFor() const { return pusher_.WaitsFor(); }
  bool worker() const { return context_.worker; }
  Clock clock() const { return context_.worker_clock; }
  uint32_t rank() const { return context_.rank; }
  void ReportLoss(double loss) { context_.loss = loss; }
  SessionId session() const { return context_.session; }
  const std::string& data_lost() const { return context_.data_lost; }
  Stats stats() const;
  // For waits that only the caller knows of.
  WaitSeconds& waits() { return context_.stats.wait; }

 private:
  // The number each piece of a push that was just made has become a part under.
  std::vector<PartNumber> NumbersOf(const Batch& batch, Line line) const;
  void TellCache(const TableInfo& table, const Batch& batch);
  void ApplyRules(PullCall& call, const ReadRules& rules);
  Clock CatchUp(const TableInfo& table, Clock reader) const;
  void InstallRoutes(std::shared_ptr<const Routes> routes);
  // Not OK if nothing may be pushed or ticked any more.
  absl::Status CheckWritable(absl::string_view what) const;
  absl::Status CheckMayPush(const TableInfo& table) const;
  absl::Status CheckMayFinish() const;
  // A Finish on its way: flushed, then without exact reads, then told to the coordinator.
  struct LastTick {
    absl::Status status;  // of the flush
    absl::Time deadline;
    Done done;
    Timers::Id timer;
  };
  void LookAtWaits();
  void OnFlushed(absl::Status status, absl::Time deadline, Done done);
  void OnExactReadEnded();
  void TellLastTick();
  void EndFinish(absl::Status status);

  Context context_;
  Pusher pusher_;
  Puller puller_;
  Session session_;
  std::optional<LastTick> last_tick_;
  WaitReports wait_reports_;
  bool finishing_ = false;
  bool sealed_ = false;  // the last tick may have been heard: no number beyond it
  bool failed_ = false;  // the pieces have been told
};

}  // namespace paceline::sdk
