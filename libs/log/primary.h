#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/change_tracker.h"
#include "libs/log/cuts.h"
#include "libs/log/folds.h"
#include "libs/log/hand_over.h"
#include "libs/log/parked_reads.h"
#include "libs/log/record.h"
#include "libs/log/replicas.h"
#include "libs/log/requests.h"
#include "libs/log/seen_rounds.h"
#include "libs/log/segment.h"
#include "libs/log/session_changes.h"
#include "libs/log/shard_side.h"
#include "libs/log/snapshots.h"
#include "libs/log/subscriptions.h"
#include "libs/log/uncommitted.h"
#include "libs/wire/packed.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::log {

// The primary of a segment: it judges requests, writes the records that follow from them, applies these, and
// answers. Nobody else appends to the segment's log. In a configuration of one member a record is committed
// as soon as it is applied; otherwise when all members that the primary waits for hold it (replicas.h).
//
// A read may show records that are not committed yet, but its certificate names the min clock of committed
// ones. While the lease of any member it waits for has run out the primary still takes parts, but answers
// nobody: another member may have taken over, and know better.
//
// Its parts decide, each about one thing, and are tested alone: Replicas, Uncommitted, HandOver,
// SessionChanges, Folds, Cuts, ChangeTracker, Subscriptions, SeenRounds, ParkedReads. They do not know each
// other. The primary asks them in turn, and alone writes records.
//
// Time is passed in. Single owner, no locks, no I/O.
//
// More than 15 members: ten are the parts named above, each of which decides one thing; the others are its
// epoch, and the time.
class Primary {
 public:
  // Reads beyond these are refused OVER_BUDGET.
  static constexpr size_t kParkedMax = ParkedReads::kMax;
  static constexpr absl::Duration kOwnPartMax = ParkedReads::kOwnPartMax;

  // A primary that does not serve for this long says why (WhyNotServing).
  static constexpr absl::Duration kServesNot = absl::Seconds(2);

  // How the primary reaches its followers.
  struct Replication {
    const world::Clock* clock = nullptr;
    std::shared_ptr<ReplicationPort> port;
    uint64_t* numbers = nullptr;  // as Replicas'; outlives the primary
    bool durable = false;         // as Replicas'
    bool disk = false;            // as Replicas'
    Replicas::ImagePace image_pace = {};
  };
  // The state that one member gives up and another takes over.
  struct State {
    Segment segment;
    LogTail tail;
  };

  // Primary of an empty segment that never has another member.
  Primary(SegmentId id, int ring_bits, Epoch epoch, ShardSide shard);
  // Primary of a segment that an earlier epoch's primary has released. Workers announce their ticks again.
  Primary(Segment segment, Epoch epoch, ShardSide shard);
  // The same, with `replicas` as the other members.
  Primary(State state, Epoch epoch, const std::vector<ring::Member>& replicas, ShardSide shard,
          const Replication& replication);

  // The segment's data was given up for lost, in this epoch or an earlier one: a session that is neither
  // known nor closed here has lost its parts, and the coordinator's changes up to `change_floor` are not for
  // it.
  void BeganEmpty(uint64_t change_floor);
  // Begins a later epoch in which this shard is primary again, with these replicas.
  void Begin(Epoch epoch, const std::vector<ring::Member>& replicas);
  // Begins a planned hand-over to a replica: refuses parts, and reads that would wait, until the replica
  // holds every record; then asks for the new configuration, and refuses all. False: `to` is not one of its
  // replicas.
  bool HandOver(const ring::Member& to);
  // A follower's answers.
  void OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack);
  void OnBeacon(const ring::Member& from, const v1::Beacon& beacon);
  // The state of this shard's own disk, which has the records up to `durable`.
  void OnDisk(v1::ReplicateReply::DiskState state, Lsn durable);
  void Recruit(const ring::Member& learner) { replicas_.Recruit(learner); }
  // Sends followers the new records. Call it after every call that may write.
  void Flush() { replicas_.Pump(segment_); }

  // Sets the present time, from which the waiting times of reads woken by the next calls follow. OnTime and
  // Serve set it too.
  void SetNow(absl::Time now) { now_ = std::max(now_, now); }

  // Takes a part in the order of its line, each number once. nullopt: taken now, or earlier. Otherwise
  // nothing has changed: FENCED, OUT_OF_ORDER, INVALID, OVER_BUDGET. A part of the arrival line is applied at
  // once; its sink is told the line's mark as soon as that is committed. A part of the line of aggregated
  // tables is staged; its sink is told after the clock is folded.
  std::optional<v1::Refusal> Take(const Part& part);

  // A worker's tick: "I am at `clock`, sealed by `seals`". Does nothing if the session is not a worker.
  void Tick(SessionId session, Clock clock, const clock::LineCounts& seals);

  // Answers the read's sink, now or once the clocks allow. OnTime refuses it at its deadline.
  void Serve(Read read, absl::Time now);

  // -- readers that want to be told of changes (primary_subscriptions.cc) --
  // Judges and makes the change. Not nullopt: the set is gone, and why.
  std::optional<v1::Refusal> Subscribe(const SetChange& change);
  // A subscriber has room again, or its stream is gone: tells what may be told now.
  void TellSubscribers();
  const Subscriptions& subscriptions() const { return subscriptions_; }

  // -- readers and pushers under a value bound (primary_seen.cc) --
  // Takes note of what a client says, and answers if it may.
  void TakeReading(const ReadingNote& note, absl::Time now);

  // Refuses the parked reads whose deadline has passed, and drops the cancelled ones. Maintains replicas,
  // hand-over and cuts.
  NextVisit OnTime(absl::Time now);

  // -- the coordinator's changes: each is taken up first, and then made --
  // Judges whether the change comes too late, which nothing else does, and logs that it begins. False: do not
  // make it; `why` says why, and `late` whether that stays so. A change with the number 0 is never late.
  bool TakeUp(const BeginChange& change, std::string* why, bool* late);
  // True: what TakeUp has logged is committed too.
  bool TakenUp(const BeginChange& change, std::string* why) {
    return change.number == 0 || ChangeCommitted(Record(change).index(), *AskedAboutAs(change), why);
  }

  // Writes the record of a session's change, if there is none yet. True: the record is committed, and safe on
  // the members' disks if they have disks. False: not yet; `why` says what is missing, and a refused join
  // sets `passed` to the min clock that has already passed its start. A last tick that may not be written
  // yet counts from now on, and is written as soon as it may. REQUIRES: the change is one of a session.
  bool Change(const v1::Change& change, const clock::LineCounts& seals, std::string* why,
              std::optional<Clock>* passed);

  // The same for changes of tables and jobs. A change of rates whose clock has passed here
  // is refused, and sets `passed` to the largest clock there is.
  bool Change(const DropTable& drop, std::string* why);
  bool Change(const ChangeRule& change, std::string* why, std::optional<Clock>* passed);
  bool Change(const CloseJob& close, std::string* why);

  // -- job snapshots (primary_cuts.cc, docs/snapshots.md) --
  // The same for a cut. It is logged as soon as the job's min clock has reached its clock, provided that the
  // coordinator keeps asking for it. `passed` as for rates.
  bool Change(const CutWish& wish, std::string* why, std::optional<Clock>* passed);
  // A committed cut, whose rows NextOfCut then returns. nullopt: they are not here. Another member was
  // primary when the cut was logged, it is not the last cut, nobody has asked for it for long, or it was
  // taken before.
  std::optional<CutCopy> TakeCut(JobId job, uint64_t id) {
    return cuts_.Take(job, id, epoch_, now_, segment_);
  }
  // The rows of the next page, as they were when the cut was logged; costs O(the page). False: there are no
  // more.
  //   NOT_FOUND           as TakeCut; or all rows were given out before
  //   RESOURCE_EXHAUSTED  the shard had no memory to keep rows that have changed since
  absl::StatusOr<bool> NextOfCut(JobId job, uint64_t id, table::CopiedRows* out) {
    return cuts_.Next(job, id, segment_, out);
  }
  // Writes rows of a snapshot, of load `id`, into a job without sessions. Does nothing if that load is
  // complete already. Unless OK, nothing has changed:
  //   UNAVAILABLE         not possible now; try again
  //   RESOURCE_EXHAUSTED  the shard is full
  //   INVALID_ARGUMENT    the rows are not this segment's
  absl::Status Take(const std::shared_ptr<const TableInfo>& table, Load load, uint64_t id);
  // Completes a load: all rows of `tables`, the job's only tables, were taken. FAILED_PRECONDITION: one of
  // these tables was dropped here, hence the whole job; nothing is left of it.
  absl::Status Take(const EndLoad& end, const std::vector<TableId>& tables);
  // True: the record that completes the load is committed.
  bool Loaded(JobId job, uint64_t id, std::string* why);

  // Refuses every parked read with `refusal` (the shard stops, or the segment moves), and ends every
  // subscription.
  void Abandon(v1::Refusal refusal);

  // Gives the segment up: refuses every parked read with `refusal`, and returns the state. The last call.
  State Release(const v1::Refusal& refusal);

  // True if it may answer at this moment.
  bool MayAnswer() const { return !hand_over_.asked() && replicas_.Leased(); }
  const Replicas& replicas() const { return replicas_; }
  bool handing_over() const { return hand_over_.under_way(); }
  // Where the first of its epochs in a row began. It serves reads once the records up to here are committed:
  // by then it may show what the primary before it has shown.
  Lsn took_over() const { return took_over_; }
  // Why it has not served for some time; empty: it does, as of the last OnTime. For people.
  std::string WhyNotServing() const;
  // Marks that are sent once their records are committed.
  size_t pending_acks() const { return uncommitted_.marks(); }
  const Uncommitted& uncommitted() const { return uncommitted_; }
  // The min clock that every member knows; certificates name it.
  Clock MinClockShown(JobId job) { return uncommitted_.MinClock(job, replicas_.committed()); }

  const Segment& segment() const { return segment_; }
  const Staging& staging() const { return folds_.staging(); }
  // Why the session's parts are refused for good: it was closed. nullopt: it is open, or not known here yet.
  std::optional<v1::Refusal> WhyOver(SessionId session, JobId job) const;
  // The session's parts that are here: applied, or staged.
  clock::LineCounts Here(SessionId session) const { return folds_.Here(session, segment_); }
  Epoch epoch() const { return epoch_; }
  size_t parked() const { return parked_.size(); }
  const ParkedReads& parked_reads() const { return parked_; }

 private:
  // Adds which part is refused, and which one is expected.
  v1::Refusal OfPart(v1::Refusal refusal, const Update& update) const;
  // OVER_BUDGET of RESOURCE_EXHAUSTED, UNAVAILABLE of UNAVAILABLE, both to be tried again; otherwise INVALID.
  v1::Refusal Refuse(const absl::Status& status, const Update& update) const;
  std::optional<v1::Refusal> Judge(const Part& part);

  // -- primary_replication.cc --
  void Acknowledge(const std::shared_ptr<AckSink>& sink, wire::Mark mark);
  // Sends what may be sent now: acknowledgements, and answers to parked reads.
  void Settle();
  void NoteChange(const Record& record);
  // True if the record of such a change of `id`, if there is one, is committed.
  bool ChangeCommitted(size_t kind, uint64_t id, std::string* why);
  bool MayChange(std::string* why) const;
  bool MayBeReplaced() const;
  void SettleAndHandOver();
  void OnTimeOfHandOver(absl::Time now);
  void HandOverIfUnfit(absl::Time now);
  void NoteServing(absl::Time now);
  v1::Refusal NotNow(absl::string_view what, uint32_t retry_after_ms) const;
  absl::Status CheckMemory(const Part& part);  // and opens the table
  Effects Append(const Record& record);
  void OpenTableIfNew(const std::shared_ptr<const TableInfo>& table);

  // -- primary_folds.cc --
  std::optional<v1::Refusal> Stage(const Part& part);
  // Writes the records that the clocks allow now (folds, the min clock, last ticks); then answers the reads
  // that became ready.
  void MoveOn(JobId job);
  void MoveOnAll();
  void AdvanceMinClock(JobId job);

  // -- primary_subscriptions.cc --
  v1::Refusal DroppedRefusal() const;

  // -- primary_seen.cc --
  void AdvanceRounds();

  // -- primary_cuts.cc --
  void LogCutIfDue(JobId job);

  bool Ready(const Read& read);
  void Answer(const Read& read, const Wait& wait);
  Wait WaitOf(const Read& read) const;  // why the read is not ready
  void WakeParked();

  bool ChangeSession(const v1::Change& change, std::string* why, std::optional<Clock>* passed);
  bool Finish(const v1::Change& change, const clock::LineCounts& seals, std::string* why);

  Segment segment_;
  Epoch epoch_;
  Lsn began_;  // where the epoch began
  Lsn took_over_;
  ShardSide shard_;
  const world::Clock* clock_ = nullptr;
  absl::Time now_ = absl::InfinitePast();                 // as last set, for waiting times
  absl::Time serves_not_since_ = absl::InfiniteFuture();  // as of the last OnTime

  Replicas replicas_;
  Uncommitted uncommitted_;
  log::HandOver hand_over_;
  SessionChanges sessions_;
  Folds folds_;
  Cuts cuts_;
  ChangeTracker tracker_;
  Subscriptions subscriptions_;
  SeenRounds rounds_;
  ParkedReads parked_;
};

}  // namespace paceline::log
