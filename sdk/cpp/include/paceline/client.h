#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "paceline/filters.h"
#include "paceline/future.h"
#include "paceline/options.h"
#include "paceline/stats.h"
#include "paceline/table.h"
#include "paceline/table_schema.h"
#include "paceline/work.h"

namespace paceline {

namespace sdk {
class ClientState;
}

// When Client::ChangeRule takes effect. Set at most one of the two: both together are INVALID_ARGUMENT.
struct ChangeRuleOptions {
  // The clock from which on the new rates count. If a worker has already reached it, the next clock on which
  // all segments can agree takes its place. Unset: that next clock.
  std::optional<uint64_t> at_clock = {};
  // True: the new rates count at once, in each segment at the present clock of its workers.
  bool now = false;
};

// How Client::DeleteJob treats open sessions, and how long it waits.
struct DeleteJobOptions {
  // True: closes the job's open sessions first. False: a job with open sessions is not deleted.
  bool force = false;
  // How long DeleteJob waits for the coordinator and the shards, in all.
  absl::Duration timeout = absl::Seconds(60);
};

// One member of a training job: a worker, which takes part in the job's clocks, or a reader without a clock.
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
// **Clocks.** A worker counts its iterations. The updates that it pushes between two ticks are its updates of
// that clock. Table::Pull returns values that are as fresh as the table's Consistency asks at that clock.
//
// **Threads.** Any number of threads may call all functions of a client and its tables at once. The
// destructor is the exception: it must be the last call, on one of the caller's own threads. Threads that
// share a client are one worker: they have one clock and one order of pushes.
//   - Calls take effect one at a time. A call that returned before another one began comes before it: a pull
//     of any thread sees the pushes that had returned before it began.
//   - Tick ends the clock of all threads. A push that returned before Tick began belongs to the clock that
//     ends; a push that runs beside Tick belongs to this clock or the next. Threads that work on one clock
//     together must therefore meet before one of them ticks.
//   - Flush waits for the pushes of all threads that returned before it began, and reports the first error of
//     any of them, once.
//   - ClientOptions::unacknowledged_bytes_max bounds all threads together.
// A client has two background threads, which also run the callbacks of futures; so does a thread in a
// blocking call, or one that waits for a future. A blocking function that is called from a
// callback returns FAILED_PRECONDITION instead of blocking.
//
// **Order without waiting.** PushOptions::after, PullOptions::after, TickAfter and the functions of Future
// say which operation follows which; the operations then start by themselves: see future.h.
//
// **Failures.** The client handles lost connections, absent coordinators and moved segments: an operation
// takes longer, nothing is lost and nothing is applied twice. A failure that it cannot handle ends the
// client: every operation under way and every later one returns the same status.
//   ABORTED    The session is over: the coordinator evicted it because it was silent, or somebody closed it.
//              Connect again; work after the last successful Flush may have to be done again.
//   DATA_LOSS  A shard no longer has updates that it had acknowledged; the message names the segment and the
//              range that is missing.
// docs/errors.md lists all codes with their causes.
class Client {
 public:
  // Opens a session and, with workers ≥ 1, joins the job's clocks. Blocks for at most options.timeout, or
  // options.start_timeout while it waits for other workers, and then returns DEADLINE_EXCEEDED.
  // INVALID_ARGUMENT names an option that is missing or contradicts another; ALREADY_EXISTS: another worker
  // has the rank that was asked for.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  // Sends what is held back of pushes (PushFilter) and waits at most a second until it is committed.
  // Closes the session, and waits at most a second for the coordinator. Operations under way end with
  // CANCELLED, and updates that were pushed but not flushed may be lost: call Finish or Flush first. The
  // coordinator evicts a worker that is destroyed without Finish, so that nobody waits for it. Not in a
  // callback: it waits for the thread that the callback runs on.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Opens the table `name` of this job; the first caller creates it. INVALID_ARGUMENT: no table can have this
  // schema. ALREADY_EXISTS: the table has another schema. Both messages name the field. Asks the
  // coordinator, so open a table once and keep the Table.
  absl::StatusOr<Table> OpenOrCreate(absl::string_view name, const TableSchema& schema);
  // Opens an existing table, whatever its schema, reads it with `consistency`, pushes to it through
  // `push_filter`, and filters what travels. NOT_FOUND: there is no table of this name.
  absl::StatusOr<Table> Open(absl::string_view name, const Consistency& consistency = Ssp{},
                             const PushFilter& push_filter = {}, const LinkFilters& link_filters = {});

  // Opens the work queue `name` of this job; the first caller makes it, and it lasts as long as the job.
  // INVALID_ARGUMENT names an option that is wrong. ALREADY_EXISTS: the queue has other work. UNIMPLEMENTED:
  // the coordinator is of an earlier release. work.h says how to use it.
  absl::StatusOr<WorkQueue> OpenWork(absl::string_view name, const WorkOptions& options);

  // Deletes the table `name`. When this returns, its rows are gone and its memory is free on all shards.
  // Pushes to it that are still under way end with INVALID_ARGUMENT; so do later pushes and pulls through its
  // Table objects, of this client and of others. The name is free for a new table, which starts from its
  // initial values. NOT_FOUND: there is no table of this name.
  absl::Status DropTable(absl::string_view name);

  // Changes the rates of a table's rule while the job trains: all parameters of a rule but the
  // initial_accumulator of Adagrad, and those that an Expression names. Returns the clock that was agreed,
  // once every segment has logged it. Updates that workers push in that clock and later ones follow the new
  // rates; updates of smaller clocks follow the old ones, whenever they arrive. Updates of clients without a
  // clock change with the min clock. A result of 0 means that the rates count at once, because `options.now`
  // was set or no worker was active. INVALID_ARGUMENT names a field other than a rate. Other clients are told
  // within about a second (docs/jobs.md). From then on OpenOrCreate accepts the new rates, and still those
  // the table was created with.
  absl::StatusOr<uint64_t> ChangeRule(absl::string_view name, const Rule& rule,
                                      const ChangeRuleOptions& options = {});

  // Deletes a job with all its tables; the caller need not be a member of it. Nothing of the job is left when
  // this returns; a job that is created under the same name meanwhile stays. `coordinator` is as in
  // ClientOptions. NOT_FOUND: there is no such job. FAILED_PRECONDITION: the job has open sessions, and
  // options.force is false.
  static absl::Status DeleteJob(const std::string& coordinator, const std::string& job,
                                const DeleteJobOptions& options = {});

  // Ends the current clock: the pushes of this clock are complete, and the clock grows by one. Sends the tick
  // to the shards and returns without waiting for them. FAILED_PRECONDITION for a client without a clock, and
  // after Finish.
  absl::Status Tick();
  // Ticks once `after` has ended with OK; an invalid() future ticks at once. For a push,
  // TickAfter(push.Placed()) is enough, and no round trip: the tick counts in a segment once all parts before
  // it do. The future ends with the tick, or with the error of `after`. In the second case there is no tick,
  // and the other workers wait for it: handle the error.
  Future<void> TickAfter(const Future<void>& after);

  // The clock that this worker is at. The first workers of a job start at 0, later ones beyond every clock
  // that is finished. 0 for a client without a clock.
  uint64_t clock() const;
  // This worker's rank among the job's workers, 0, 1, 2 …; 0 for a client without a clock.
  uint32_t rank() const;
  // Reports the loss of this worker's newest updates for the cluster's metrics. The next keep-alive carries
  // it, about once a second, and only the newest value. Nothing else depends on it.
  void ReportLoss(double loss);
  // The session's id, as status listings show it.
  uint64_t session() const;
  // Describes which acknowledged updates the job's rows lacked when this client connected, because an
  // operator had accepted their loss. Empty: none.
  std::string data_lost() const;

  // Sends what is held back of pushes (PushFilter).
  // Blocks until all earlier pushes are committed, including those that wait for other operations. It does
  // not wait for pushes of the current clock to aggregated tables, which need the next Tick. Returns the
  // first error of a push since the last Flush, so that no error is lost with a dropped future.
  // DEADLINE_EXCEEDED after ClientOptions::timeout: the pushes go on; call it again.
  absl::Status Flush();

  // The worker's last tick: flushes, then leaves the job's clocks, so that nobody waits for this worker any
  // more. Pushes and ticks after it return FAILED_PRECONDITION; pulls still work. If the worker has pushed to
  // aggregated tables, Finish returns when their clocks are folded: once the other workers have come as far,
  // or have finished too. Then it leaves its work queues (WorkQueue::Leave). DEADLINE_EXCEEDED: call it
  // again.
  absl::Status Finish();

  // A copy of the counters since Connect. Does no I/O.
  Stats stats() const;

 private:
  explicit Client(std::shared_ptr<sdk::ClientState> state);

  std::shared_ptr<sdk::ClientState> state_;
};

}  // namespace paceline
