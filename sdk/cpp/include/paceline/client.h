#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "paceline/future.h"
#include "paceline/options.h"
#include "paceline/stats.h"
#include "paceline/table.h"
#include "paceline/table_schema.h"

namespace paceline {

namespace sdk {
class ClientState;
}

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
// A client has one clock: threads that share a client share its clock.
//
// **Threads.** All functions may be called from any thread, except the destructor, which must be the last. A
// client has one background thread, which also runs the callbacks of futures; functions here that block
// return FAILED_PRECONDITION when they are called from a callback.
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

  // Ends the current clock: the pushes of this clock are complete, and the clock grows by one. Tells the
  // shards and returns without waiting for them. FAILED_PRECONDITION for a client without a clock, and after
  // Finish.
  absl::Status Tick();

  // The clock this worker is at. The first workers of a job start at 0, later ones beyond every clock
  // that is finished. 0 for a client without a clock.
  uint64_t clock() const;
  // This worker's place among its equals, 0, 1, 2 …; 0 for a client without a clock.
  uint32_t rank() const;
  // The session's id, as status listings show it.
  uint64_t session() const;

  // Blocks until everything pushed before this call is committed. Returns the first error of a push since the
  // last Flush, so that none goes unnoticed when its future was dropped.
  absl::Status Flush();

  // The worker's last tick: flushes, then leaves the job's clocks, so that nobody waits for it any more. No
  // more pushes and ticks after it; pulls are fine.
  absl::Status Finish();

  Stats stats() const;

 private:
  explicit Client(std::shared_ptr<sdk::ClientState> state);

  std::shared_ptr<sdk::ClientState> state_;
};

}  // namespace paceline
