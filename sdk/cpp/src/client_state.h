#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/dial/shard_dialer.h"
#include "libs/history_file/history_file.h"
#include "libs/rpc/event_loop.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"
#include "paceline/future.h"
#include "paceline/options.h"
#include "sdk/cpp/src/buffer_pool.h"
#include "sdk/cpp/src/grpc_coordinator_api.h"
#include "sdk/cpp/src/push/loan.h"
#include "sdk/cpp/src/session/carrier.h"
#include "sdk/cpp/src/session/client_core.h"

namespace paceline::sdk {

// A client's core in the real world, under one lock. One thread (Run) drives timers, the coordinator's
// answers and streams over gRPC; the dialer's loop carries all other streams. The thread that entered the
// core does the work that the core leaves, without the lock.
//
// More than 15 members: everything of a client that is not its core: its options, threads, connections and
// lock.
class ClientState : public Gate, public Carrier, public std::enable_shared_from_this<ClientState> {
 public:
  // Opens the session and joins. Blocks.
  static absl::StatusOr<std::shared_ptr<ClientState>> Connect(ClientOptions options);
  ~ClientState() override;

  void Enter(absl::FunctionRef<void()> inside) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes events of the streams that the dialer's loop carries, if there are any; or else, in a blocking
  // call, of gRPC.
  bool CarryUntil(const DoneFn& done) override;
  void Awake(const DoneFn& done) override { loop_.Awake(done); }
  void OnSent() override {
    if (loop_.Writes()) loop_.Hurry();
  }

  // Runs `inside` with the core; false if the client was shut.
  bool With(absl::FunctionRef<void(ClientCore&)> inside);

  // Starts an operation that ends with a status and waits for it. `waits`: where the time is counted. The
  // calling thread waits for what the operation's end says, or else for `cause`; nullopt: the wait does not
  // count.
  absl::Status Await(absl::FunctionRef<void(ClientCore&, Done)> start, double WaitSeconds::*waits = nullptr,
                     std::optional<WaitCause> cause = WaitCause::kCoordinator);

  // What a push needs: room for its bytes; with `weighed`, that its table's value bound allows it.
  struct Needed {
    uint64_t bytes = 0;
    std::shared_ptr<const TableInfo> table = nullptr;
    std::shared_ptr<const WeighedPush> weighed = nullptr;
  };
  // Runs `push` with the core once there is room for so many more unacknowledged bytes, as
  // ClientOptions::unacknowledged_bytes_max says, and whatever else it needs. Waits at most `timeout`, and
  // not at all in a callback. It is one visit, so that concurrent threads keep the bounds together. Not OK:
  // `push` was not run.
  absl::Status WithRoom(const Needed& needed, absl::Duration timeout,
                        absl::FunctionRef<void(ClientCore&)> push) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reserves room for a push that follows other operations, as WithRoom does, so that it need not wait later.
  // Must be followed by one Start or Drop.
  absl::StatusOr<uint64_t> Hold(uint64_t bytes, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `push` in place of the held one; false if the client was shut.
  bool Start(uint64_t held, absl::FunctionRef<void(ClientCore&)> push) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the held push up, because the operation before it ended with `why`. The next flush reports that
  // error.
  void Drop(uint64_t held, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns when nobody reads the values of a push any more that its caller has lent and no longer waits for.
  // What is not committed is copied.
  void TakeBack(std::shared_ptr<Batch> batch, Loan& loan);

  // Waits until all pushes that are held now have been started or dropped, then flushes or finishes.
  absl::Status Flush();
  absl::Status Finish();

  // Closes the session, ends everything, joins the threads. Call it once; every later call finds the client
  // gone.
  void Shut();

  Buffer Allocate(size_t bytes) { return pool_->Take(bytes); }
  // Null: the client is gone.
  std::shared_ptr<const Routes> routes() const ABSL_LOCKS_EXCLUDED(routes_mutex_);
  const ClientOptions& options() const { return options_; }
  // By what the client's streams travel.
  void CountStreams(Stats& stats) const;
  static absl::Status GoneError();

 private:
  // The work that a visit leaves to be done without the lock.
  struct Left {
    Deferred deferred;
    bool wake = false;  // the loop must look at the core's next deadline
  };

  explicit ClientState(ClientOptions options);
  absl::Status Open();
  void Run();
  Left Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoWithoutLock(Left left) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sleeps until a visit has made `done()` true, for at most `timeout`; returns done(), which is called with
  // the lock held.
  template <class Done>
  bool SleepUntil(absl::Duration timeout, const Done& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a wait for pushes before there is room, in the same places.
  void CountRoom(absl::Time began) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for a wait for others to see what was pushed.
  void CountBound(absl::Time began) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitRoom(const Needed& needed, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitRoom(uint64_t bytes, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return AwaitRoom({.bytes = bytes}, timeout);
  }
  // What the push needs and does not have, for messages.
  std::string Lacks(const Needed& needed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitHeld(absl::string_view what) ABSL_LOCKS_EXCLUDED(mutex_);
  // `status`, or the error of a push that was dropped since the last flush.
  absl::Status WithDropped(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  const ClientOptions options_;
  const world::RealClock clock_;
  world::SplitMix64 random_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  rpc::EventLoop loop_;
  dial::ShardDialer dialer_;
  GrpcCoordinatorApi coordinator_;
  std::unique_ptr<history::HistoryFile> history_;  // null: no recording; set before the core exists

  Mutex mutex_;
  CondVar changed_;  // room is free, or a held push has ended; signalled only while `waiting_`
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ClientCore> core_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // the core's next deadline
  std::thread::id loop_thread_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> held_ ABSL_GUARDED_BY(mutex_);  // bytes, by number
  uint64_t holds_ ABSL_GUARDED_BY(mutex_) = 0;                 // counts them
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status dropped_ ABSL_GUARDED_BY(mutex_);  // first error of a held push since the last flush
  // The core's routes at the end of the last visit. They have a lock of their own, so that grouping a batch
  // does not wait for the core.
  mutable Mutex routes_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::shared_ptr<const Routes> routes_ ABSL_GUARDED_BY(routes_mutex_);
  std::thread thread_;
};

}  // namespace paceline::sdk
