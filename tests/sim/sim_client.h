#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/push/listed_keys.h"
#include "sdk/cpp/src/session/client_core.h"
#include "tests/sim/plan.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A client's process: the real core, its gate, and its timers. A new start is a new core and a new session.
class SimClient : private sdk::CacheWatcher {
 public:
  SimClient(World& world, SimCoordinator& coordinator, std::string name, std::string job);
  ~SimClient() override;

  // Kills the process, as by SIGKILL, if it is up.
  void Kill();
  // The process stands still.
  void Pause(absl::Duration duration);

  bool up() const { return gate_->core != nullptr; }
  Host& host() { return host_; }
  SessionId session() const { return session_; }
  const std::string& name() const { return host_.name; }
  const std::string& job() const { return job_; }
  uint64_t starts() const { return starts_; }
  // Called when its client has failed.
  std::function<void(const absl::Status&)> on_failed = [](const absl::Status&) {};
  // Called when a request has ended well, with how long it took.
  std::function<void(const char* what, absl::Duration took)> on_took = [](const char*, absl::Duration) {};
  // The process's activity, and the cause of its core's waits: for messages about stalls.
  std::string Describe() const;

 protected:
  using TablePtr = std::shared_ptr<const sdk::TableInfo>;

  // Starts the process: opens the session and the tables, then calls OnReady. `folded` is its consistency for
  // the aggregated table; `counts`, if it has one of its own, for the counting table.
  void Start(uint32_t workers, Consistency consistency, Consistency folded,
             std::optional<Consistency> counts = std::nullopt);
  virtual void OnReady() = 0;
  // The process has ended: killed, or its client has failed.
  virtual void OnEnded() = 0;

  // Ends the process: `why` must be a status that a client may legitimately get.
  void Fail(const absl::Status& why);
  // Ends the process in good order.
  void Exit();
  // Runs `task` later, unless the process has ended by then.
  void Later(absl::Duration delay, std::function<void()> task);
  void Enter(absl::FunctionRef<void()> inside) { gate_->Enter(inside); }
  sdk::ClientCore& core() { return *gate_->core; }

  // Checks that what it was given and what it has sent agree: through a flush, or the last tick.
  void CheckNothingHeld();
  void Push(const TablePtr& table, const std::vector<uint64_t>& keys, const std::vector<float>& values,
            bool valid);
  // `done` is called on success only; any other end of a read is judged here.
  void Pull(const TablePtr& table, std::vector<uint64_t> keys, std::optional<Clock> min_clock,
            std::function<void()> done);
  // A push and a pull in one. Ends by itself; the rows that come back are judged as a read.
  void PushPull(const TablePtr& table, const std::vector<uint64_t>& keys, const std::vector<float>& values);
  // Some keys of a counting table, and 1 to 9 for each in this session's column.
  void PushCounts(const TablePtr& table, bool valid);
  void PushPullCounts(const TablePtr& table);
  void PullCounts(const TablePtr& table, std::optional<Clock> min_clock, std::function<void()> done);
  // The same in a table that may be dropped meanwhile: the client then opens it again, as a new one.
  void PushScratch();
  void PullScratch(std::function<void()> done);
  // In the table that is reduced, if there is one.
  void PushWide();
  // Some neighbouring blocks of it, whose values the user lends and writes over as soon as they are back: it
  // waits for the push, but not for long.
  void LendWide();
  void ReduceWide(std::function<void()> done);
  // In the table whose rates change.
  void PushRates();
  void PullRates(std::function<void()> done);
  // Values of all magnitudes, in columns that all share.
  void PushMeans();
  void PullMeans(std::function<void()> done);

  World& world_;
  TablePtr counts_;
  TablePtr assigns_;
  TablePtr folded_;
  TablePtr scratch_;
  TablePtr rates_;
  TablePtr means_;
  TablePtr wide_;
  std::string doing_ = "nothing yet";
  bool finishing_ = false;  // its last tick is under way, or sent
  PushFilter push_filter_;  // of its pushes to the counting table

 private:
  static constexpr uint64_t kKeys = 40;
  static constexpr absl::Duration kTimeout = absl::Seconds(30);
  static constexpr size_t kSmallSlice = 256;  // a part of some rows

  // Hears what numbers the client gives.
  struct Numbers final : history::Sink {
    explicit Numbers(SimClient& of) : client(of) {}
    void Record(const history::Event& event) override;
    SimClient& client;
  };
  struct Reading;
  struct SimGate final : sdk::Gate {
    explicit SimGate(SimClient& client) : owner(client) {}
    void Enter(absl::FunctionRef<void()> inside) override;
    SimClient& owner;
    std::unique_ptr<sdk::ClientCore> core;
    bool inside_now = false;
  };

  void Hit(const sdk::CachedRow& row) override { hits_.push_back(row); }
  void Rests(TableId) override { world_.marks.Hit("a table rests in a cache"); }
  void OnRead(const Reading& reading, absl::Status status);
  struct WideSum;
  struct Lent;
  void TakeBack(const std::shared_ptr<Lent>& lent);
  void AwaitReturn(std::shared_ptr<Lent> lent);
  void OnReduced(const WideSum& reading, const absl::StatusOr<table::Partial>& whole);
  // -- sim_client_push.cc --
  void PushBatch(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch, uint32_t priority,
                 bool valid);
  uint32_t DrawPriority();
  // A push is about to be made. Returns its number in the truth.
  uint64_t TellTruth(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch, bool valid,
                     uint32_t priority);
  void Took(const char* what, absl::Time since) { on_took(what, world_.Now() - since); }
  // The guarantees of the table's model for a read at `reader`.
  TrueRead ReadOf(const TablePtr& table, const std::vector<uint64_t>& keys, std::optional<Clock> min_clock,
                  Clock reader) const;
  // False: the table's value bound does not allow the push now. A process that has threads would wait.
  bool Fits(const TablePtr& table, const std::vector<uint64_t>& keys, const std::vector<float>& values);
  // The value is handed out now.
  void NoteHandedOut(Reading& reading);
  // Under a value bound all push to the same few rows, so that it is often reached.
  static uint64_t KeysOf(const TablePtr& table);
  // Keys, and 1 to 9 for each in this session's column.
  void DrawCounts(bool valid, std::vector<uint64_t>* keys, std::vector<float>* values, uint64_t among);
  void OnOpened(absl::Status status);
  void OpenTable(const std::string& name, const table::Schema& schema, Consistency consistency,
                 TablePtr* into, std::function<void()> then, const PushFilter& push_filter = {});
  // Those of the link, of this start and all its tables.
  filter::LinkFilters LinkFiltersNow() const;
  // With such filters a user has lists of its keys, and makes others of the same when it has forgotten them.
  // Null: without.
  std::shared_ptr<const sdk::ListedKeys> ListOf(const TablePtr& table, const std::vector<uint64_t>& keys);
  std::shared_ptr<const sdk::Batch> Grouped(const TablePtr& table, const std::vector<uint64_t>& keys,
                                            const std::vector<float>& values, bool reads_back);
  // Learns what filters leave of pushes, from now on.
  void WatchFilters();
  // The client is given a push; returns its number in the truth, of a push through a filter 0.
  uint64_t NoteGiven(const TablePtr& table, const std::shared_ptr<const sdk::Batch>& batch, bool valid,
                     uint32_t priority);
  void Settle(const sdk::Batch& batch, float sign);
  // What the client holds back is what it was given and has not sent.
  void CheckHeld();
  void OpenScratchAgain(TableId dropped);
  void OpenWide();
  void AfterVisit();
  // Pieces of reads may have been handed out in this visit.
  void NotePieces();
  void Arm();
  void OnTime(uint64_t start);
  void End();

  Numbers numbers_{*this};
  SimCoordinator& coordinator_;
  Host host_;
  const std::string job_;
  Consistency consistency_;
  Consistency consistency_of_folded_;
  std::optional<Consistency> consistency_of_counts_;
  SessionId session_;
  absl::Time started_ = absl::InfinitePast();
  uint64_t starts_ = 0;
  bool failing_ = false;
  std::map<std::pair<TableId, std::vector<uint64_t>>, std::shared_ptr<const sdk::ListedKeys>> lists_;
  std::map<uint64_t, float> held_;           // what was given and not sent, by key of the counting table
  std::vector<sdk::CachedRow> hits_;         // of the current read
  std::vector<std::shared_ptr<Lent>> lent_;  // all there ever was: a planted bug reads it later
  std::vector<std::shared_ptr<Reading>> bounded_;  // reads under a value bound that have not ended
  absl::Time armed_ = absl::InfiniteFuture();
  world::SplitMix64 random_{0};
  HostDialer dialer_;
  std::unique_ptr<SimCoordinatorApi> api_;
  std::shared_ptr<SimGate> gate_;
};

}  // namespace paceline::sim
