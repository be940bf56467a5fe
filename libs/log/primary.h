#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/change_log.h"
#include "libs/log/record.h"
#include "libs/log/replicas.h"
#include "libs/log/segment.h"
#include "libs/log/snapshots.h"
#include "libs/log/staging.h"
#include "libs/wire/packed.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::log {

// Who is told that parts of a session are committed. Called from the segment's owner; must only take note.
class AckSink {
 public:
  virtual ~AckSink() = default;
  virtual void Committed(wire::Mark mark) = 0;
  // What was noted should be sent: it came about by what somebody else did, and no frame of the sink's own
  // stream is at hand.
  virtual void Wake() {}
};

// How long a read was parked, and why.
struct Wait {
  enum class Cause {
    kStaleness,    // the min clock: a worker was too far behind
    kQueue,        // a part of the reader's own that was not applied yet
    kReplication,  // another member of the segment
  };
  Cause cause = Cause::kStaleness;
  absl::Duration duration;
  std::string for_whom;  // empty: it did not wait
};

// Who takes the answer to one part of a pull. Exactly one of Served and Refused is called, once, from the
// segment's owner; neither need be once the read was cancelled.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  // The values have been written to Read::out.
  virtual void Served(size_t part, const wire::Certificate& certificate, const Wait& wait) = 0;
  virtual void Refused(size_t part, v1::Refusal refusal) = 0;
  // Nobody waits for the answer any more: a parked read is dropped. Once true it stays true. Cheap.
  virtual bool cancelled() const { return false; }
};

// One part of a push as it reached the primary.
struct Part {
  Update update;
  JobId job;                               // of the session, as its Hello said
  std::shared_ptr<const TableInfo> table;  // null for an empty part
  std::shared_ptr<AckSink> acks;
};

// A read that asks which rows have changed, instead of naming keys.
struct ChangesAsked {
  Lsn since;              // changed by later records than this
  uint64_t rows_max = 0;  // if they are no more than these
  // Written before the read is served: how many they are, or kChangesUnknown; and their keys, u64 each, in
  // memory for rows_max of them. Their rows are written to Read::out.
  uint32_t* count = nullptr;
  std::byte* keys = nullptr;
};
// They are too many, or this primary does not know.
inline constexpr uint32_t kChangesUnknown = UINT32_MAX;

// One part of a pull as it reached the primary.
struct Read {
  SessionId session;
  JobId job;
  std::shared_ptr<const TableInfo> table;
  KeyForm form = KeyForm::kKeys;
  absl::string_view keys;
  std::optional<ChangesAsked> changes = std::nullopt;  // given: `form` and `keys` mean nothing
  std::byte* out = nullptr;                            // room for the part's rows
  PartNumber own = 0;   // parked until the session's arrival line has reached it
  Clock min_clock = 0;  // parked until the job's min clock has reached it
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

  // Parts of aggregated tables that wait to be folded have a budget of their own. Stage takes `bytes` of it,
  // if there is room; for parts of a clock `ahead` of the one to be folded next there is room only while no
  // more than half is taken, lest the fast workers keep out the slow one for whom all wait.
  virtual bool Stage(uint64_t /*bytes*/, bool /*ahead*/) { return true; }
  virtual void Unstage(uint64_t /*bytes*/) {}
  virtual uint64_t staging_max() const { return UINT64_MAX; }

  // True: so much waits for the disk that parts are to wait too.
  virtual bool DiskBehind() const { return false; }

  // `record` was appended in `epoch` and applied to `segment`. For those who watch; does nothing by itself.
  virtual void Logged(const Segment& /*segment*/, Epoch /*epoch*/, const Record& /*record*/) {}
  // The same at a replica or learner, which applied what its primary sent.
  virtual void Followed(const Segment& /*segment*/, const Record& /*record*/) {}
  // An image that its primary sent has replaced what was there, and pages follow; or it begins with what its
  // disk has.
  virtual void Installed(const Segment& /*segment*/) {}
  // The primary of `epoch` has answered a read, or acknowledged parts.
  virtual void Answered(const Segment& /*segment*/, Epoch /*epoch*/) {}
};

// What the primary of a segment does with requests: judges them, writes the records that follow, applies
// these, and answers. It is the only one who appends to the segment's log. With one member in the
// configuration a record is committed as soon as it is applied; with more, when all whom it waits for hold it
// (replicas.h).
//
// A read may show what is not committed yet, but the min clock it names is that of what is. While a member it
// waits for has not lent it its place the primary goes on taking parts and says nothing to anybody: by then
// another one may have taken over, and know better.
//
// Time is passed in. Single owner, no locks, no I/O.
class Primary {
 public:
  // How long parts of the clock to be folded next are refused for want of room to stage them, before they are
  // refused for good: those that came wait for them.
  static constexpr absl::Duration kRoomWaitMax = absl::Seconds(30);
  // Reads parked at one time; a further one is refused OVER_BUDGET.
  static constexpr size_t kParkedMax = 4096;
  // A read that waits for its reader's own part is refused after so long, with the number that is expected.
  static constexpr absl::Duration kOwnPartMax = absl::Seconds(1);
  // Once somebody has asked what has changed in a table, its changes are noted until so many updates of the
  // table have come without anybody asking again.
  static constexpr uint64_t kUpdatesUnasked = 4096;
  // Tables whose changes are noted; for a further one the one that was asked about the longest ago is given
  // up.
  static constexpr size_t kTrackedMax = 16;

  // A cut that was not asked for again for so long is no longer wished for; its rows are kept for longer.
  static constexpr absl::Duration kCutAskedMax = absl::Seconds(5);
  static constexpr absl::Duration kCutKeptMax = absl::Seconds(30);

  // How long a planned hand-over may take to begin, and to be answered.
  static constexpr absl::Duration kHandOverMax = absl::Milliseconds(500);
  // What does not serve for so long is told.
  static constexpr absl::Duration kServesNot = absl::Seconds(2);

  // How it reaches its followers.
  struct Replication {
    const world::Clock* clock = nullptr;
    std::shared_ptr<ReplicationPort> port;
    uint64_t* numbers = nullptr;  // as Replicas'; outlives the primary
    bool durable = false;         // as Replicas'
    bool disk = false;            // as Replicas'
    Replicas::ImagePace image_pace = {};
  };
  // What a member gives up and another takes over.
  struct State {
    Segment segment;
    LogTail tail;
  };

  // Of a segment that is empty, and has no other member ever.
  Primary(SegmentId id, int ring_bits, Epoch epoch, std::shared_ptr<Budget> budget);
  // Of one that the primary of an earlier epoch has released. Workers announce their ticks again.
  Primary(Segment segment, Epoch epoch, std::shared_ptr<Budget> budget);
  // The same, with `replicas` as the other members.
  Primary(State state, Epoch epoch, const std::vector<ring::Member>& replicas, std::shared_ptr<Budget> budget,
          const Replication& replication);

  // What the segment had was given up for lost: a session that is not known here, nor closed, lost what it
  // had.
  void BeganEmpty() { began_empty_ = true; }
  // A later epoch in which it is primary again, with other replicas.
  void Begin(Epoch epoch, const std::vector<ring::Member>& replicas);
  // A hand-over to a replica begins: parts and reads are refused for a moment, until that one holds
  // everything; then the configuration is asked for. False: it is none of its replicas.
  bool HandOver(const ring::Member& to);
  // What followers answer, and whom to take for one.
  void OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack);
  void OnBeacon(const ring::Member& from, const v1::Beacon& beacon);
  // How this shard's own disk stands, and that it has the records up to `durable`.
  void OnDisk(v1::ReplicateReply::DiskState state, Lsn durable);
  void Recruit(const ring::Member& learner) { replicas_.Recruit(learner); }
  // Sends followers what was written since. Call after the calls that may write.
  void Flush() { replicas_.Pump(segment_); }

  // What time it is, for the waits of reads that the next calls wake. OnTime and Serve tell it too.
  void SetNow(absl::Time now) { now_ = std::max(now_, now); }

  // Takes a part in its line's order, each number once. nullopt: taken, or taken before. Otherwise nothing
  // changed: FENCED, OUT_OF_ORDER, INVALID, OVER_BUDGET. On the arrival line the part is applied now, and its
  // sink has heard how far the line is committed. On the line of aggregated tables it is staged, and its sink
  // hears of it when its clock is folded.
  std::optional<v1::Refusal> Take(const Part& part);

  // "I am at `clock`, sealed by `seals`" of a worker. No effect if the session is no worker.
  void Tick(SessionId session, Clock clock, const clock::LineCounts& seals);

  // Answers the read's sink now or when the clocks allow. OnTime refuses it at its deadline.
  void Serve(Read read, absl::Time now);

  // Ends the parked reads whose deadline has come, and drops those that were cancelled. Returns the next
  // deadline.
  absl::Time OnTime(absl::Time now);

  // True: the record is committed, and safe on the members' disks if they have some. False: it may not be
  // written yet; `why` says what is missing, and a
  // refused join sets `join_behind` to the min clock that is already past its start. A Finish that may not be
  // written yet counts as the worker's last tick from now on, and is written once it may.
  bool Change(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
              std::optional<Clock>* join_behind);

  // The same for what the coordinator does to tables and jobs. A change of rates whose clock is passed here
  // is refused, and sets `passed` to the largest clock there is.
  bool Change(const DropTable& drop, std::string* why);
  bool Change(const ChangeRule& change, std::string* why, std::optional<Clock>* passed);
  bool Change(const CloseJob& close, std::string* why);

  // -- job snapshots (primary_cuts.cc, docs/snapshots.md) --
  // The same for a cut, which is logged as soon as the job's min clock is its clock, if the coordinator goes
  // on asking for it. `passed` as for rates.
  bool Change(const CutWish& wish, std::string* why, std::optional<Clock>* passed);
  // A cut that is committed, whose rows are to be had from NextOfCut. nullopt: they are not here: another
  // member was primary when the cut was logged, it is not the last one, nobody has asked for it for long, or
  // it was taken before.
  std::optional<CutCopy> TakeCut(JobId job, uint64_t id);
  // The rows of the next page, as they were when the cut was logged. False: there are no more. Costs the
  // page.
  //   NOT_FOUND           as TakeCut; or they were all given out before
  //   RESOURCE_EXHAUSTED  the shard had no memory to keep what has changed since
  absl::StatusOr<bool> NextOfCut(JobId job, uint64_t id, table::CopiedRows* out);
  // Writes rows of a snapshot into a job that nobody works in; of load `id`, unless that one is done already.
  // Changed is nothing unless it returns OK:
  //   UNAVAILABLE         not now, try again
  //   RESOURCE_EXHAUSTED  the shard is full
  //   INVALID_ARGUMENT    the rows are not this segment's
  absl::Status Take(const std::shared_ptr<const TableInfo>& table, Load load, uint64_t id);
  // All of them were taken: rows of `tables`, all there are of the job. FAILED_PRECONDITION: one of them was
  // dropped here, and so was the job; nothing is left of it.
  absl::Status Take(const EndLoad& end, const std::vector<TableId>& tables);
  // True: that record is committed.
  bool Loaded(JobId job, uint64_t id, std::string* why);

  // Answers every parked read with `refusal` (the shard stops, or the segment moves).
  void Abandon(const v1::Refusal& refusal);

  // Gives the segment up: every parked read is answered with `refusal`. The last call.
  State Release(const v1::Refusal& refusal);

  // Whether it may answer at this moment, were it asked.
  bool MayAnswer() const { return !swap_asked_.has_value() && replicas_.Leased(); }
  const Replicas& replicas() const { return replicas_; }
  bool handing_over() const { return handing_to_.has_value(); }
  // Why it has not served what it is there for, for some time; empty: it does, as of the last OnTime. For
  // people.
  std::string WhyNotServing() const;
  // Marks that are said once their records are committed.
  size_t pending_acks() const { return pending_acks_.size(); }
  // The min clock that every member knows of.
  Clock MinClockShown(JobId job);

  const Segment& segment() const { return segment_; }
  const Staging& staging() const { return staging_; }
  // Why nothing of the session is taken any more: it was closed. nullopt: it is open, or not known here yet.
  std::optional<v1::Refusal> WhyOver(SessionId session, JobId job) const;
  // The session's parts that are here: applied, or staged.
  clock::LineCounts Here(SessionId session) const;
  Epoch epoch() const { return epoch_; }
  size_t parked() const { return parked_.size(); }

 private:
  struct Parked {
    Read read;
    absl::Time since;
    Wait wait;  // its cause and for whom, as found when it was parked
  };

  v1::Refusal Refuse(v1::Refusal::Reason reason, const Update& update, std::string message) const;
  // That the session is not open: FENCED, or DATA_LOSS if it was closed for that, or will be as soon as the
  // coordinator's word is here; and the words for it.
  std::pair<v1::Refusal::Reason, std::string> NotOpen(SessionId session, JobId job) const;
  std::optional<v1::Refusal> Judge(const Part& part);

  // -- primary_replication.cc --
  void Acknowledge(const std::shared_ptr<AckSink>& sink, wire::Mark mark);
  // Tells what may be told now: acknowledgements, parked reads.
  void Settle();
  void NoteChange(const Record& record);
  void NoteMinClocks();
  void ShowMinClocks();
  // Whether the record of such a change of `id` is committed, if there is one.
  bool ChangeCommitted(size_t kind, uint64_t id, std::string* why);
  bool MayChange(std::string* why) const;
  void OnTimeOfHandOver(absl::Time now);
  void HandOverIfUnfit(absl::Time now);
  void NoteServing(absl::Time now);
  v1::Refusal NotNow(absl::string_view what, uint32_t retry_after_ms) const;
  std::optional<v1::Refusal> CheckContent(const Part& part, const Segment::Session& session) const;
  std::optional<v1::Refusal> CheckMemory(const Part& part);  // and opens the table
  bool Fits(const Segment::Table& table, const Update& update) const;
  Effects Append(const Record& record);
  void OpenTableIfNew(const std::shared_ptr<const TableInfo>& table);
  absl::Status CheckNotDropped(const TableInfo& table) const;

  // -- primary_changes.cc --
  void AppendUpdate(const Update& update);
  static absl::Status CheckChanges(const table::Schema& schema);
  void AnswerChanges(const Read& read);

  // -- primary_folds.cc --
  std::optional<v1::Refusal> Stage(const Part& part);
  std::optional<v1::Refusal> FindRoom(const Part& part, bool ahead);
  std::optional<v1::Refusal> CheckStaged(const Part& part, const clock::JobClock& clock) const;
  // Writes what the clocks allow now: folds, the min clock, last ticks; then answers the reads that may be.
  void MoveOn(JobId job);
  void MoveOnAll();
  void AdvanceMinClock(JobId job);
  void FoldNext(JobId job);
  bool LogFinish(JobId job);
  std::string DescribeSlowest(JobId job) const;

  // -- primary_cuts.cc --
  // The clock that the job's min clock may not pass before it is cut.
  std::optional<Clock> CutClock(JobId job) const;
  void LogCutIfDue(JobId job);
  void LogCut(const CutWish& wish);
  void BeginCutCopy(const Cut& record);
  bool AwaitsCut(const Update& update, JobId job) const;
  void ForgetCuts(absl::Time now);
  void EndCopies();

  bool Ready(const Read& read);
  void Answer(const Read& read, const Wait& wait);
  Wait WaitOf(const Read& read) const;  // why it is not ready
  bool LacksOwnPart(const Read& read) const;
  absl::Time ParkedUntil(const Parked& parked) const;
  v1::Refusal DeadlineRefusal(const Parked& parked, absl::Time now) const;
  void WakeParked();
  void DropCancelled();
  // Ends the parked reads of tables that were dropped.
  void RefuseParked(absl::FunctionRef<bool(const Read&)> dropped);

  bool ChangeBySession(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why,
                       std::optional<Clock>* join_behind);
  bool Open(const v1::SessionChange& change, std::string* why);
  bool Join(const v1::SessionChange& change, std::string* why, std::optional<Clock>* join_behind);
  bool Finish(const v1::SessionChange& change, const clock::LineCounts& seals, std::string* why);
  bool Evict(const v1::SessionChange& change);

  // A worker's last tick, not written yet.
  struct LastTick {
    Clock clock = 0;
    clock::LineCounts seals;
  };

  Segment segment_;
  Staging staging_;
  std::map<SessionId, LastTick> finishing_;
  std::map<JobId, absl::Time> no_room_since_;  // for parts of the clock to be folded next
  Epoch epoch_;
  Lsn began_;  // where the epoch began
  std::shared_ptr<Budget> budget_;
  Replicas replicas_;
  const world::Clock* clock_ = nullptr;

  // What is said once its record is committed.
  struct PendingAck {
    Lsn lsn;
    std::shared_ptr<AckSink> sink;
    wire::Mark mark;
  };
  struct PendingMinClock {
    Lsn lsn;
    JobId job;
    Clock min_clock = 0;
  };
  std::deque<PendingAck> pending_acks_;
  std::deque<PendingMinClock> pending_min_clocks_;
  std::map<JobId, Clock> written_min_clocks_;
  std::map<JobId, Clock> shown_min_clocks_;
  std::map<std::pair<size_t, uint64_t>, Lsn>
      changes_;  // those not known to be committed, by kind of record and id

  // A cut that is to be logged, and the last one whose rows are kept. Soft: the coordinator goes on asking.
  struct WishedCut {
    CutWish wish;
    absl::Time asked;
  };
  struct KeptCopy {
    CutCopy copy;
    absl::Time asked;
    bool taken = false;
  };
  std::map<JobId, WishedCut> cuts_wished_;
  std::map<JobId, KeptCopy> cut_copies_;

  std::optional<ring::Member> handing_to_;
  absl::Time handing_since_;
  absl::Time next_heir_ = absl::InfinitePast();           // until when none is looked for
  absl::Time serves_not_since_ = absl::InfiniteFuture();  // as of the last OnTime
  std::optional<absl::Time> swap_asked_;                  // from then on it never answers in this epoch
  absl::Time next_keep_;
  std::vector<Parked> parked_;
  struct Tracked {
    ChangeLog log;
    uint64_t updates_unasked = 0;
  };
  absl::flat_hash_map<TableId, Tracked> tracked_;  // tables whose changes somebody asks for
  absl::Time now_ = absl::InfinitePast();          // as last told, for the waits of woken reads
  struct Eviction {
    std::string reason;
    bool data_lost = false;
  };
  bool began_empty_ = false;
  absl::flat_hash_map<SessionId, Eviction> evictions_;  // for the refusals they meet; soft and bounded
};

}  // namespace paceline::log
