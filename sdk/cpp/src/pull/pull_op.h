#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/pull/reducing.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/time_account.h"

namespace paceline::sdk {

// Receives the rows of a pull. Called outside the gate, and for one pull never on two threads at once, except
// that Done with an error may come while rows are still on their way; these are discarded.
class PullSink {
 public:
  virtual ~PullSink() = default;
  // The rows of some pieces of the batch, as one reply has brought them: as Scatter takes them.
  virtual void Rows(absl::Span<const Stretch> pieces, const absl::Cord& values) = 0;
  // The last call. OK: all pieces have been handed over, or are about to be, on the thread that delivered
  // them.
  virtual void Done(absl::Status status) = 0;
};

// A pull as its caller hands it over.
struct PullCall {
  std::shared_ptr<const TableInfo> table;
  std::shared_ptr<const Batch> batch;
  Clock min_clock = 0;
  bool exact = false;      // the min clock must be this one, not a later one
  bool own_writes = true;  // must hold every push this client made before
  bool cached = false;     // keep its rows for later reads
  bool rounded = true;     // its rows may be rounded, if the table's filters say so
  bool changes = false;    // the batch is made of Refreshes, and the answer goes to the cache only
  // The batch has a piece for each segment that is asked, and their answers go here (reducing.h).
  std::shared_ptr<Reducing> reducing = nullptr;
  std::optional<Clock> reader = std::nullopt;  // the clock at which it reads; unset: the worker's
  uint64_t read = 0;                           // its number in the client's history
  uint32_t priority = 0;                       // a lower number goes first
  absl::Duration timeout = absl::InfiniteDuration();
  std::shared_ptr<PullSink> sink;
};

// The part of a pull for one segment.
struct PullPart {
  PartNumber own = 0;       // the client's last part of the table there when the pull was made
  bool unnumbered = false;  // some of these parts have no number yet: it is not asked for before they have
  uint32_t asking = 0;      // counts the requests for it; an answer to an earlier one is void
  bool done = false;
  MapVersion held_for_map;             // to be asked again once the client has this map
  absl::Time since;                    // since when it is being asked for, or held
  absl::Duration routing;              // time before that in which no shard could be asked
  absl::Duration parked;               // … in which a shard had parked it, and then said for whom
  std::optional<uint32_t> parked_for;  // the rank of that worker
  std::string last_refusal;
  int refused = 0;  // so often by one primary, in a row
  // Of a table under a value bound: what was served, until all of the pull may be handed out.
  struct Held {
    wire::Certificate certificate;
    absl::Cord values;
    bool rides = false;
  };
  std::optional<Held> held = std::nullopt;
};

// A pull under way. Shared with the requests that carry its parts, which may outlive it.
struct PullOp {
  uint64_t id = 0;
  PullCall call;
  Clock reader = 0;             // the worker's clock when it was made
  uint64_t pushes = 0;          // the client's, until then
  std::vector<PullPart> parts;  // by piece of the batch
  size_t left = 0;
  // Its parts ride with those of a push. The push stream answers them if nothing goes wrong; otherwise the
  // client asks for them as for any others.
  bool rides = false;
  bool leased = false;  // its table is under a value bound: judged when it is handed out
  // Some of it had become too old before the rest was there: from then on each piece is judged, and handed
  // out, as it comes. Otherwise a pull that takes longer than a round would never end.
  bool by_piece = false;
  std::optional<Waited> waited = std::nullopt;  // until its last part came
  absl::Time started;
  absl::Time deadline;
  Timers::Id timer;
  bool ended = false;
};

// The timeout that the shard gets: a little less than `left`, so that its answer, which names the worker that
// it waited for, comes before the client's own deadline; at most `most`. 0: the shard's own limit.
uint32_t ParkTimeoutMs(absl::Duration left, absl::Duration most);

// The content of one frame to one shard: some parts of one pull, each segment at most once.
struct PullRequest {
  struct Asked {
    uint32_t part = 0;
    uint32_t asking = 0;
    // The state that was certified or committed before this was sent: the answer may not be behind it. (It
    // may be behind state certified since, because answers overtake each other.)
    Clock min_clock = 0;
    PartNumber own = 0;  // committed
    Epoch epoch = {};    // the newest known epoch, and the version certified in it
    PartNumber applied = 0;
  };

  uint64_t id = 0;  // of the frame; a new one for each sending
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

class Link;

// Receives the links' reports about requests: those of pull streams, and those that ride with pushes.
class PullListener {
 public:
  virtual ~PullListener() = default;
  // Parts of pushes have got numbers: pulls may have waited for that.
  virtual void OnNumbered() = 0;
  virtual void OnSending(PullRequest& request, absl::Time usable_since) = 0;
  // The answer to a request. Not OK: the shard broke the rules of the wire.
  virtual absl::Status OnReply(Link& link, const PullRequest& request,
                               const wire::Frame<v1::PullReply>& reply) = 0;
  virtual void OnRefusedStream(Link& link, const v1::Refusal& refusal) = 0;
  // The stream broke before the answer came.
  virtual void OnLost(PullRequest& request) = 0;
  // The same for parts that rode with a push: the client asks for them by a pull of their own.
  virtual void OnRideLost(PullRequest& request) = 0;
};

}  // namespace paceline::sdk
