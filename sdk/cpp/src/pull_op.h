#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "sdk/cpp/src/batch.h"
#include "sdk/cpp/src/context.h"

namespace paceline::sdk {

// Where the rows of a pull go. Called outside the gate, for one pull never on two threads at once unless one
// of the calls is Done with an error: then rows may be on their way still, and come to nothing.
class PullSink {
 public:
  virtual ~PullSink() = default;
  // The rows of one piece of the batch, as they came.
  virtual void Rows(const Batch::Piece& piece, const absl::Cord& values) = 0;
  // The last call. OK: all pieces have been handed over, or are about to be on the thread that brought them.
  virtual void Done(absl::Status status) = 0;
};

// A pull as its caller hands it over.
struct PullCall {
  std::shared_ptr<const TableInfo> table;
  std::shared_ptr<const Batch> batch;
  Clock min_clock = 0;
  bool exact = false;      // the min clock must be this one, not a later one
  bool own_writes = true;  // must hold every push this client made before
  bool cached = false;     // its rows are kept for later reads
  bool changes = false;    // of a batch made of Refreshes: what comes goes to the cache only
  std::optional<Clock> reader = std::nullopt;  // the clock it reads at; unset: the worker's
  uint64_t read = 0;                           // what the client's history calls it
  uint32_t priority = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  std::shared_ptr<PullSink> sink;
};

// What a pull asks of one segment.
struct PullPart {
  PartNumber own = 0;   // the client's last part there when the pull was made
  uint32_t asking = 0;  // counts the times it was asked; an answer to an earlier one is void
  bool done = false;
  MapVersion held_for_map;  // to be asked again once this map is there
  absl::Time since;         // it is being asked, or held
  absl::Duration routing;   // time before that in which nobody could be asked
  absl::Duration parked;    // … in which a shard had it waiting, and then said for whom
  std::string last_refusal;
};

// A pull under way. Shared with the requests that carry its parts, which may outlast it.
struct PullOp {
  uint64_t id = 0;
  PullCall call;
  Clock reader = 0;             // the worker's clock when it was made
  std::vector<PullPart> parts;  // by piece of the batch
  size_t left = 0;
  // Its parts go with those of a push. They are answered on the push stream, where everything goes well, and
  // otherwise asked for like any others.
  bool rides = false;
  absl::Time started;
  absl::Time deadline;
  Timers::Id timer;
  bool ended = false;
};

// What the shard is told to wait at most: a little less than what is left, so that its answer, which names
// whom it waited for, comes before our own deadline. Where much is left, `most`. 0: its own limit.
uint32_t ParkTimeoutMs(absl::Duration left, absl::Duration most);

// What one frame asks of one shard: some parts of one pull, each segment at most once.
struct PullRequest {
  struct Asked {
    uint32_t part = 0;
    uint32_t asking = 0;
    // What was certified or committed before this was sent: the answer may not be behind it. (It may be
    // behind what was certified since: answers overtake each other.)
    Clock min_clock = 0;
    PartNumber own = 0;  // committed
    Epoch epoch = {};    // the newest that is known, and what was certified in it
    PartNumber applied = 0;
  };

  uint64_t id = 0;  // of the frame, anew at each sending
  bool rides = false;
  std::shared_ptr<PullOp> op;
  std::vector<Asked> parts;
  size_t bytes = 0;  // of the request as sent
  absl::Time sent;

  bool Live(const Asked& asked) const {
    return !op->ended && !op->parts[asked.part].done && op->parts[asked.part].asking == asked.asking;
  }
  SegmentId Segment(const Asked& asked) const { return op->call.batch->pieces[asked.part].segment; }
};

}  // namespace paceline::sdk
