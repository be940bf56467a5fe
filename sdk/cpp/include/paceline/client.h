#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "paceline/future.h"
#include "paceline/options.h"
#include "paceline/stats.h"
#include "paceline/table.h"
#include "paceline/table_schema.h"

namespace paceline {

namespace sdk {
class ClientState;
}

// From when on new rates count.
struct ChangeRuleOptions {
  // At this clock, or, if somebody has come to it by then, at the next one that can be agreed. Unset: at the
  // next one that can be agreed.
  std::optional<uint64_t> at_clock = {};
  // At once, in each segment wherever its workers are.
  bool now = false;
};

struct DeleteJobOptions {
  // Closes the job's sessions first; otherwise a job with open sessions is refused.
  bool force = false;
  absl::Duration timeout = absl::Seconds(60);
};

// One member of a training job: a worker, or a reader without a clock.
//
//   absl::StatusOr<std::unique_ptr<paceline::Client>> client =
//       paceline::Client::Connect({.coordinator = "localhost:7070", .job = "ctr", .workers = 1});
//   if (!client.ok()) return client.status();
//   auto weights = (*client)->OpenOrCreate(
//       "weights", paceline::Sparse{.dim = 1,
//                                   .rule = paceline::Adagrad{.lr = 0.1f},
//                                   .consistency = paceline::Ssp{.staleness = 2}});
//   for (const Batch& batch : batches) {
//     absl::StatusOr<std::vector<float>> w = weights->Pull(batch.keys);
//     ...
//     weights->PushAsync(batch.keys, gradients).OnReady(...);  // or drop the future: Flush reports errors
//     (*client)->Tick();                                       // end of this clock
//   }
//   return (*client)->Finish();
//
// **Clocks.** A worker counts its iterations. What it pushes between two ticks are its updates of that clock.
//
// **Threads.** All functions of a client and its tables may be called from any number of threads at once,
// except the destructor, which must be the last, on a thread of the caller's own. Threads that share a client
// are one worker: they have one clock and one order of pushes.
//   - Calls take effect one at a time. A call that returned before another one began comes before it: what
//     one thread has pushed, a pull that any thread makes afterwards sees.
//   - Tick ends the clock of all of them. A push of another thread that returned before Tick began belongs to
//     the clock that ends; one that runs beside it to this or the next. Threads that work on one clock
//     together meet before one of them ticks.
//   - Flush waits for the pushes of all threads that returned before it began, and reports the first error of
//     any of them, once.
//   - unacknowledged_bytes_max is a bound for all of them together.
// A client has one background thread, which also runs the callbacks of futures. Functions here that block
// return FAILED_PRECONDITION when they are called from a callback.
//
// **Order without waiting.** PushOptions::after, PullOptions::after, TickAfter and the functions of a Future
// state what comes after what; the operations then start by themselves: see future.h.
//
// **Failures.** Lost connections, coordinators that are away and moved segments are this library's work: an
// operation takes longer, nothing is lost and nothing applied twice. What it cannot mend ends the client:
// every operation under way and every later one returns the same status.
//   ABORTED    the session is over: evicted for its silence, or closed by someone else. Connect again; work
//              after the last successful Flush may have to be done again.
//   DATA_LOSS  a shard no longer has what it had acknowledged; the message says which segment, from where to
//              where.
class Client {
 public:
  // Opens a session and, with workers ≥ 1, joins the job's clocks. Blocks at most options.timeout, or
  // options.start_timeout while it waits for other workers.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  // Closes the session, waiting at most a second for the coordinator. Operations under way end with
  // CANCELLED, and what was pushed and not flushed may be lost: call Finish or Flush first. A worker that
  // goes without Finish is evicted, so that nobody waits for it.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Opens the table `name` of this job; the first caller creates it. INVALID_ARGUMENT if the schema is
  // wrong, ALREADY_EXISTS if the table exists with another one, both naming the field.
  absl::StatusOr<Table> OpenOrCreate(absl::string_view name, const TableSchema& schema);
  // Opens an existing table, whatever its schema. NOT_FOUND if there is none.
  absl::StatusOr<Table> Open(absl::string_view name, const Consistency& consistency = Ssp{});

  // Ends the table `name`: its rows are gone and its memory is free everywhere when this returns. Pushes of
  // it that are still under way end with INVALID_ARGUMENT, as do later pushes and pulls of its Table objects,
  // of this client and of others. The name is free for a new table, which starts from its initial values.
  // NOT_FOUND if there is none.
  absl::Status DropTable(absl::string_view name);

  // Changes the rates of a table's rule while it is being trained: lr, epsilon, alpha, beta, l1, l2. Returns
  // the clock agreed, when every segment has logged it: updates that workers push in that clock and later
  // ones follow the new rates, and those of smaller clocks the old ones, whenever they arrive. Updates of
  // clients without a clock change with the min clock. 0: they count at once, because that was asked for or
  // nobody was at work. INVALID_ARGUMENT for anything but rates, by field. OpenOrCreate takes the new rates
  // from then on, and still those the table was created with.
  absl::StatusOr<uint64_t> ChangeRule(absl::string_view name, const Rule& rule,
                                      const ChangeRuleOptions& options = {});

  // Ends a job with all its tables, without being a member of it; nothing of it is left when this returns.
  // `coordinator` as in ClientOptions. NOT_FOUND if there is no such job, FAILED_PRECONDITION if it has open
  // sessions and is not forced.
  static absl::Status DeleteJob(const std::string& coordinator, const std::string& job,
                                const DeleteJobOptions& options = {});

  // Ends the current clock: the pushes of this clock are complete, and the clock grows by one. Tells the
  // shards and returns without waiting for them. FAILED_PRECONDITION for a client without a clock, and after
  // Finish.
  absl::Status Tick();
  // The same once `after` has ended well, if it does; the future ends with the tick,
  // or with the error of `after`. A tick that is not made holds up the other workers: handle the error.
  Future<void> TickAfter(const Future<void>& after);

  // The clock this worker is at. The first workers of a job start at 0, later ones beyond every clock
  // that is finished. 0 for a client without a clock.
  uint64_t clock() const;
  // This worker's place among its equals, 0, 1, 2 …; 0 for a client without a clock.
  uint32_t rank() const;
  // The loss of this worker's newest updates, for the cluster's metrics: told with the next sign of life,
  // about once a second, the newest only. Nothing depends on it.
  void ReportLoss(double loss);
  // The session's id, as status listings show it.
  uint64_t session() const;
  // What the job's rows lacked when this client connected, in words: acknowledged updates that somebody gave
  // up for lost. Empty: nothing.
  std::string data_lost() const;

  // Blocks until everything pushed before this call is committed, pushes that come after other operations
  // included, but for pushes of the current clock to aggregated tables, which wait for the next Tick. Returns
  // the first error of a push since the last Flush, so that none goes unnoticed when its future was dropped.
  absl::Status Flush();

  // The worker's last tick: flushes, then leaves the job's clocks, so that nobody waits for it any more. No
  // more pushes and ticks after it; pulls are fine. With pushes to aggregated tables it returns when their
  // clocks are folded, so when the other workers have come as far, or finish too.
  absl::Status Finish();

  Stats stats() const;

 private:
  explicit Client(std::shared_ptr<sdk::ClientState> state);

  std::shared_ptr<sdk::ClientState> state_;
};

}  // namespace paceline
