#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/wire/packed.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::log {

// Who is told that parts of a session are committed. Called from the segment's owner; must only take note.
class AckSink {
 public:
  virtual ~AckSink() = default;
  virtual void Committed(wire::Mark mark) = 0;
};

// How long a read was parked, and why.
struct Wait {
  enum class Cause {
    kStaleness,  // the min clock: a worker was too far behind
    kQueue,      // a part of the reader's own that was not applied yet
  };
  Cause cause = Cause::kStaleness;
  absl::Duration duration;
  std::string for_whom;  // empty: it did not wait
};

// Who takes the answer to one part of a pull. Exactly one of the two is called, once, from the segment's
// owner.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  // The values have been written to Read::out.
  virtual void Served(size_t part, const wire::Certificate& certificate, const Wait& wait) = 0;
  virtual void Refused(size_t part, v1::Refusal refusal) = 0;
};

// One part of a push as it reached the primary.
struct Part {
  Update update;
  JobId job;                               // of the session, as its Hello said
  std::shared_ptr<const TableInfo> table;  // null for an empty part
  std::shared_ptr<AckSink> acks;
};

// One part of a pull as it reached the primary.
struct Read {
  SessionId session;
  JobId job;
  std::shared_ptr<const TableInfo> table;
  KeyForm form = KeyForm::kKeys;
  absl::string_view keys;
  std::byte* out = nullptr;  // room for the part's rows
  PartNumber own = 0;        // parked until the session's arrival line has reached it
  Clock min_clock = 0;       // parked until the job's min clock has reached it
  absl::Time deadline = absl::InfiniteFuture();
  size_t part = 0;  // named in the answer
  std::shared_ptr<ReadSink> sink;
};

// Memory and counters that all segments of a shard share. Thread-safe implementations only.
class Budget {
 public:
  virtual ~Budget() = default;
  // False: the shard is full, the part must be refused OVER_BUDGET.
  virtual bool Admits(uint64_t more_bytes) = 0;
  virtual void Grown(int64_t bytes) = 0;
  virtual void RowsUpdated(uint64_t rows) = 0;
  // `record` was appended in `epoch` and applied to `segment`. For those who watch; does nothing by itself.
  virtual void Logged(const Segment& /*segment*/, Epoch /*epoch*/, const Record& /*record*/) {}
};

// What the primary of a segment does with requests: judges them, writes the records that follow, applies
// these, and answers. It is the only one who appends to the segment's log. With one member in the
// configuration a record is committed as soon as it is applied.
//
// Time is passed in. Single owner, no locks, no I/O.
class Primary {
 public:
  // Reads parked at one time; a further one is refused OVER_BUDGET.
  static constexpr size_t kParkedMax = 4096;

  // Of a segment that is empty.
  Primary(SegmentId id, int ring_bits, Epoch epoch, std::shared_ptr<Budget> budget);
  // Of one that the primary of an earlier epoch has released. Workers announce their ticks again.
  Primary(Segment segment, Epoch epoch, std::shared_ptr<Budget> budget);

  // What time it is, for the waits of reads that the next calls wake. OnTime and Serve tell it too.
  void SetNow(absl::Time now) { now_ = std::max(now_, now); }

  // Takes a part in its line's order, each number once. nullopt: taken, or taken before; its sink has heard
  // how far the line is committed. Otherwise nothing changed: FENCED, OUT_OF_ORDER, INVALID, OVER_BUDGET.
  std::optional<v1::Refusal> Take(const Part& part);

  // "I am at `clock`, sealed by `seals`" of a worker. No effect if the session is no worker.
  void Tick(SessionId session, Clock clock, const clock::LineCounts& seals);

  // Answers the read's sink now or when the clocks allow. OnTime refuses it at its deadline.
  void Serve(Read read, absl::Time now);

  // Ends the parked reads whose deadline has come. Returns the next deadline.
  absl::Time OnTime(absl::Time now);

  // True: the record is committed. False: it may not be written yet; `why` says what is missing, and a
  // refused join sets `join_behind` to the min clock that is already past its start.
  bool Change(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
              std::optional<Clock>* join_behind);

  // Answers every parked read with `refusal` (the shard stops, or the segment moves).
  void Abandon(const v1::Refusal& refusal);

  // Gives the segment up: every parked read is answered with `refusal`. The last call.
  Segment Release(const v1::Refusal& refusal);

  const Segment& segment() const { return segment_; }
  Epoch epoch() const { return epoch_; }
  size_t parked() const { return parked_.size(); }

 private:
  struct Parked {
    Read read;
    absl::Time since;
    Wait wait;  // its cause and for whom, as found when it was parked
  };

  v1::Refusal Refuse(v1::Refusal::Reason reason, const Update& update, std::string message) const;
  std::optional<v1::Refusal> CheckContent(const Part& part, const Segment::Session& session) const;
  bool Fits(const Segment::Table& table, const Update& update) const;
  Effects Append(const Record& record);
  void OpenTableIfNew(const std::shared_ptr<const TableInfo>& table);
  void AdvanceMinClock(JobId job);

  bool Ready(const Read& read) const;
  void Answer(const Read& read, const Wait& wait);
  Wait WaitOf(const Read& read) const;  // why it is not ready
  v1::Refusal DeadlineRefusal(const Parked& parked, absl::Time now) const;
  void WakeParked();

  bool Open(const v1::SessionChange& change, std::string* why);
  bool Join(const v1::SessionChange& change, std::string* why, std::optional<Clock>* join_behind);
  bool Finish(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why);
  bool Evict(const v1::SessionChange& change);

  Segment segment_;
  const Epoch epoch_;
  const Lsn began_;  // where the epoch began
  std::shared_ptr<Budget> budget_;
  std::vector<Parked> parked_;
  absl::Time now_ = absl::InfinitePast();  // as last told, for the waits of woken reads
  // Why sessions were evicted, for the refusals they meet. Soft and bounded.
  absl::flat_hash_map<SessionId, std::string> eviction_reasons_;
};

}  // namespace paceline::log
