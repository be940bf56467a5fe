#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

namespace sdk {
class ClientState;
}

// The work of a queue: which examples are trained, and in which portions they are handed out.
struct WorkOptions {
  // Examples of one pass over the data, numbered from 0. What an example is, and where it is read, is the
  // program's own business: the cluster only ever sees numbers.
  uint64_t examples = 0;
  // Examples of one item. An item is what one worker does at a time; a few seconds of training are a good
  // size. A worker that ends silently leaves at most one item begun, so shorter items mean less that is
  // trained twice; below a few milliseconds handing them out costs more than training them.
  uint64_t per_item = 0;
  // How often all examples are trained. No worker waits at the end of a pass.
  uint64_t passes = 1;
  // True: an item is handed out only once all items up to that of the same examples in the pass before are
  // done, so that their updates are committed and nobody else works on these examples. For training that
  // keeps something by example, such as the topics of a document's words. Passes still overlap, by as much as
  // that allows; workers may wait for the slowest of them towards the end of a pass. UNIMPLEMENTED on a
  // cluster of feature level 1.
  bool passes_in_order = false;
  // How much work this worker wants to hold ahead, by the time it takes for an item: while no coordinator is
  // there it goes on for so long. Not part of the queue: each worker may say something else.
  absl::Duration ahead = absl::Seconds(60);
};

// Examples begin, begin + 1 … end - 1 of a pass, for the worker that was given it.
struct WorkItem {
  uint64_t pass = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t number = 0;  // identifies the item within its queue
};

// How long WorkQueue::Next waits.
struct NextOptions {
  // Unset: ClientOptions::timeout.
  std::optional<absl::Duration> timeout = {};
};

// A queue of work that the workers of a job share. Each item is given to one worker; what a worker does not
// finish is given to another one. So workers may come and go at any time, and be of any speed:
//
//   auto work = client->OpenWork("train", {.examples = n, .per_item = 1000, .passes = 3});
//   while (true) {
//     absl::StatusOr<std::optional<paceline::WorkItem>> item = work->Next();
//     if (!item.ok()) return item.status();
//     if (!item->has_value()) break;                    // everything is trained, by all workers together
//     for (const Batch& batch : Batches(**item)) {
//       ...                                             // pull, push, tick
//       work->Mark(**item, batch.end);                  // optional: what need not be done again
//     }
//     work->Done(**item);
//   }
//   return client->Finish();
//
// **What is promised.** Every example of every pass is trained by some worker, and its pushes are committed
// before the queue is complete. It is trained once, except for what `paceline status` counts: when a worker
// ends silently, the examples behind the last mark of the items that it held may be trained twice. A mark or
// the end of an item counts once every push that was made before it is committed, so no push is lost with its
// worker; this never blocks, and is reported about once a second. A push that was refused for its content
// counts as ended: see its future, or Flush.
//
// **Who has what.** Items are handed out ahead, so Next does not wait for the coordinator, and work goes on
// while there is none. An item belongs to the session that it was handed to until that has done it, gives it
// back, or is closed in every segment; no time runs out. The rest of an item that was begun goes to another
// worker from its last mark on. When a worker is out of work, the one that holds the most that it has not
// begun gives back half of that.
//
// **Clocks.** While a call of Next waits, and nothing of the queue is begun in this client, the client goes
// on ticking behind the slowest worker, with empty clocks, so that nobody waits for it: clock() may have
// grown when Next returns. In tables that are folded by mean it counts as a member of these clocks.
//
// **Threads.** Any number of threads may share one queue object, which is one worker: each has an item of its
// own. Copies of the object are the same queue. It must not outlive its client: every call returns CANCELLED
// then.
class WorkQueue {
 public:
  // The next item for this worker, which has begun with it from now on; nullopt once every item of the queue
  // is done, by whomever. Blocks while other workers hold all that is left, because what they do not finish
  // comes back. DEADLINE_EXCEEDED then names them; call it again to go on waiting. FAILED_PRECONDITION after
  // Leave, and in a callback.
  absl::StatusOr<std::optional<WorkItem>> Next(const NextOptions& options = {});

  // The examples of the item below `position` are trained: their pushes have been made, or wait for
  // operations before them. Does not block. While a filter holds back updates of this client (PushFilter) a
  // mark counts for nothing. INVALID_ARGUMENT: not a position within the item, or not an item that this
  // worker has begun.
  absl::Status Mark(const WorkItem& item, uint64_t position);
  // The whole item is trained. Sends what filters hold back. Does not block.
  absl::Status Done(const WorkItem& item);

  // Sends what filters hold back, and gives back what this worker has not done, items that it has begun from
  // their last mark on, and returns when the coordinator has all of its marks: it waits for pushes that are
  // not committed, and for the workers that those to aggregated tables wait for. Next must not be called
  // after it. Client::Finish does the same. DEADLINE_EXCEEDED after ClientOptions::timeout: call it again.
  absl::Status Leave();

 private:
  friend class Client;
  WorkQueue(std::shared_ptr<sdk::ClientState> client, uint32_t queue)
      : client_(std::move(client)), queue_(queue) {}

  std::shared_ptr<sdk::ClientState> client_;
  uint32_t queue_ = 0;
};

}  // namespace paceline
