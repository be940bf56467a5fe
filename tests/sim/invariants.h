#pragma once

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/engine/engine.h"
#include "libs/log/primary.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/ring/segment_map.h"
#include "libs/sim/marks.h"
#include "libs/snapshot/files.h"
#include "libs/wire/packed.h"
#include "paceline/v1/snapshot.pb.h"
#include "tests/sim/ledger.h"
#include "tests/sim/truth.h"
#include "tests/sim/verdict.h"

namespace paceline::sim {

// Rows of the tables of a snapshot.
using SnapshotRows = std::map<TableId, TableRows>;

// The invariants of docs/simulation.md, one function each, checked on what a step touched. They know the
// truth and the logs; they never rely on the cluster's own account.
class Invariants {
 public:
  Invariants(Verdict& verdict, Truth& truth, Marks& marks, uint32_t segments)
      : verdict_(verdict),
        truth_(truth),
        marks_(marks),
        ring_bits_(std::countr_zero(segments)),
        ledgers_(segments),
        undo_(segments),
        records_(segments),
        clocks_(segments),
        floors_(segments),
        answered_(segments) {}

  bool anybody_was_told = false;  // of a session, or of a job that was loaded
  // Every acknowledged part is on the disks of all members.
  bool durable = false;

  // -- what happens --
  void OnLogged(const ring::Member& by, const log::Segment& after, Epoch epoch, const log::Record& record);
  // The same at a replica or learner.
  void OnFollowed(const ring::Member& by, const log::Segment& after, const log::Record& record);
  // An image has replaced the state of a replica or learner.
  void OnInstalled(const ring::Member& by, const log::Segment& image);
  // A start of a shard goes on from its disk's state of a segment.
  void OnRestored(const ring::Member& by, SegmentId segment, log::LogPosition position) {
    logs_[{by, segment}] = position;
  }
  // The configuration `before` has ended: `map` has the next one.
  void OnConfig(SegmentId segment, const v1::SegmentConfig& before, const v1::Map& map);
  // No disk has anything of the segment, and all clients that ask for it are told so.
  void OnNothingFound(SegmentId segment);
  // A primary considers the records up to here held by every member.
  void OnCommitted(SegmentId segment, Epoch epoch, Lsn committed);
  // A member that follows, at a quiet point.
  void Equal(const log::Segment& primary, const log::Segment& follower, const std::string& who);
  // A primary's count of its workers' ticks, after a frame.
  void OnCounted(const log::Primary& primary);
  // A shard has sent, or a client has received, an acknowledgement.
  void OnMarkSent(const ring::Member& by, SessionId session, const wire::Mark& mark);
  void OnMarkReceived(SessionId session, const wire::Mark& mark);
  // A shard has sent a certificate for this request.
  void OnCertificateSent(const ring::Member& by, JobId job, const wire::Certificate& certificate,
                         Clock asked_min_clock, PartNumber asked_own);
  // A shard has sent an update of a subscriber's rows.
  void OnSetUpdateSent(const ring::Member& by, JobId job, const wire::Certificate& certificate);
  // A client has received a certificate.
  void OnCertificateReceived(SessionId session, const wire::Certificate& certificate);
  // `row` was handed out for `read`.
  void OnCached(const TrueRead& read, const sdk::CachedRow& row);
  // A user has got the values of `read`, `dim` for each key.
  void OnRead(const TrueRead& read, uint32_t dim, const std::vector<float>& values);
  // A user has got the sum of `column` over the rows of `read`, which is of the whole table, and how many
  // rows there were.
  void OnReduced(const TrueRead& read, uint32_t column, uint64_t rows, double sum);
  // A client has failed with `why`.
  void OnFailed(SessionId session, const absl::Status& why);
  // The coordinator asks shards for a cut at this clock; nullopt: at each shard's current state.
  void OnCutAsked(uint64_t cut, std::optional<Clock> clock) { cuts_asked_[cut] = clock; }
  // A user asks to delete this job, or to replace it.
  void OnDeletionAsked(JobId job) { meant_.insert(job); }
  // The coordinator has committed that a table is dropped everywhere, or that its rates have changed.
  void OnDropDone(TableId table);
  void OnRatesDone(TableId table, uint64_t number, std::optional<Clock> clock, uint32_t bound);
  // A snapshot of a job is begun, and becomes visible to all. REQUIRES: Cut holds.
  void OnSnapshotBegun(const std::string& name);
  // A snapshot from before the cluster.
  void OnSnapshotKnown(const std::string& name, SnapshotRows rows) {
    snapshots_[name].rows = std::move(rows);
  }
  SnapshotRows RowsOf(const std::string& name) { return snapshots_[name].rows; }
  void OnSnapshotComplete(const std::string& name);
  // The coordinator has committed that a job made of a snapshot is visible; `tables` maps its tables to those
  // that they were made of.
  void OnLoaded(JobId job, uint64_t load, const std::string& snapshot,
                const std::map<TableId, TableId>& tables);
  // At a quiet point.
  void OnQuiet(const log::Segment& segment);

  const SegmentLedger& ledger(SegmentId segment) const { return ledgers_[segment.v]; }
  uint32_t segments() const { return static_cast<uint32_t>(ledgers_.size()); }

  // -- one each --
  void OnePrimary(const ring::Member& by, SegmentId segment, Epoch epoch);
  // A shard that answers now is of no earlier epoch than any shard that has answered before.
  void NoOverlap(const ring::Member& by, SegmentId segment, Epoch epoch);
  // A configured replica that lives holds everything that was said to be held by all; `held`: the position
  // from which it could go on.
  void InSync(const ring::Member& member, SegmentId segment, Lsn held);
  // `after` is the segment as its new primary begins the epoch.
  void Completeness(const ring::Member& by, const log::Segment& after, Epoch epoch);
  // `writes`: it is the author's own log.
  void LogMatching(const ring::Member& by, const log::Segment& after, const log::Record& record, bool writes);
  // A disk's content of a segment is a state that its log went through …
  void Durable(const std::string& where, const log::Segment& found);
  // … not before the position that it had confirmed.
  void Kept(const std::string& where, SegmentId segment, Lsn found, Lsn promised);
  // A base contains everything that it replaces.
  void Cut(const std::string& where, const engine::Batch::PutBase& base);
  // A snapshot holds what the logs held at its cuts.
  void Cut(const std::string& name, snapshot::Files& files);
  void Loaded(const log::Segment& segment);
  void AckLogged(SessionId session, const wire::Mark& mark, const char* when);
  void Replicated(SessionId session, const wire::Mark& mark);
  void Once(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  void NumberOrder(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  // `here`: its parts that are applied; for the count alone, those that are staged too.
  void Sealed(SegmentId segment, SessionId session, Clock clock, const clock::LineCounts& here,
              const char* why);
  void Folded(SegmentLedger& ledger, SegmentId segment, const log::Fold& fold);
  void MinClock(SegmentId segment, JobId job, Clock min_clock);
  void ReadBound(SegmentId segment, JobId job, Clock min_clock, Clock asked);
  // An update of a subscriber's rows shows committed records, and the min clock of its version.
  void Told(JobId job, const wire::Certificate& certificate);
  void OwnWrites(SegmentId segment, PartNumber own, PartNumber asked);
  void Values(const TrueRead& read, uint64_t key, uint32_t column, float value);
  void ValueBound(const TrueRead& read, uint64_t key, uint32_t column, float value);
  void Cached(const TrueRead& read, const sdk::CachedRow& row, uint32_t column, float value);
  void VoidVersions(SessionId reader, const sdk::CachedRow& row);
  void Fenced(const SegmentLedger& ledger, SegmentId segment, SessionId session, const char* record);
  void Join(const SegmentLedger& ledger, SegmentId segment, const log::Join& join);
  void Below(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  void Sums(const log::Segment& segment, const log::Segment::Table& table);
  // The state has the sessions, workers, clocks and numbers of changes that are logged, and no others.
  void State(const log::Segment& segment);
  void Dropped(const SegmentLedger& ledger, SegmentId segment, TableId table, const char* record);
  void Rates(const SegmentLedger& ledger, SegmentId segment, const log::ChangeRule& change);
  // A cached value of a table of rates holds the reader's own pushes at their rates, as far as it knows
  // these.
  void Rated(const TrueRead& read, const sdk::CachedRow& row, uint32_t column, float value);
  // A worker reads at clock `reader`, by at most `most`: by the bound in force then, of the changes up to
  // `known`, which all segments have agreed, or by that of the last of these if it is larger.
  void Bound(SessionId session, TableId table, Clock reader, Clock bound, Clock most, uint64_t known);
  // The coordinator has committed that the job is to be deleted: a user has meant it.
  void Meant(JobId job);
  // A table whose rows the simulator keeps beside the log holds these rows.
  void Replayed(const log::Segment& segment, const log::Segment::Table& table);
  // A value read from a table of means is a state that its folds went through, and not before the model's
  // bound.
  void Means(const TrueRead& read, uint64_t key, uint32_t column, float value);

 private:
  void On(const log::OpenTable& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::OpenSession& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Join& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Finish& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Evict& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Advance& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Update& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Fold& record, const log::Segment& after, SegmentLedger& ledger);
  void MovedOn(const log::Segment& after, SegmentLedger& ledger);
  void On(const log::DropTable& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::ChangeRule& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::CloseJob& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::BeginEpoch&, const log::Segment&, SegmentLedger&) {}
  void On(const log::Cut& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Load&, const log::Segment&, SegmentLedger&) {}
  void On(const log::EndLoad& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::BeginChange& record, const log::Segment& after, SegmentLedger& ledger);
  // Keeps the rows of tables of rates, by the slow way.
  void Follow(const log::Update& record, SegmentId segment, SegmentLedger& ledger);

  void NoteClocks(const log::Segment& after);
  uint32_t DimOf(TableId table) const;
  void DivideMeans(const SegmentLedger& ledger, const log::Fold& fold,
                   std::map<TableId, TableRows>& folded) const;
  void FollowMeans(SegmentLedger& ledger, SegmentId segment, const log::Fold& fold,
                   const std::map<TableId, TableRows>& folded);

  void ForgetMeans(SegmentId segment);
  LoggedTable::Rows LoadedHere(SegmentId segment, TableId table) const;
  // The rows that the simulator keeps beside the log, to be changed.
  LoggedTable::Rows RowsOf(const SegmentLedger& ledger, SegmentId segment, TableId table) const;

  // The error in the clocks of a file as of this cut; empty: none.
  std::string CutClocks(SegmentId segment, const LoggedCut& cut, const v1::SnapshotFile& file) const;
  void AddCut(SegmentId segment, const LoggedCut& cut, SnapshotRows& rows) const;

  // A client's knowledge of a segment, from the certificates it has received.
  struct Heard {
    std::map<Epoch, Lsn> began;
    // One version may have several: the min clock that is shown grows as its record is replicated.
    std::map<std::pair<Epoch, Lsn>, std::set<std::pair<Clock, PartNumber>>> certificates;
  };

  Verdict& verdict_;
  Truth& truth_;
  Marks& marks_;
  const int ring_bits_;
  std::vector<SegmentLedger> ledgers_;
  std::vector<std::map<Lsn, SegmentLedger>>
      undo_;  // as of each record that is not committed, and the one before
  struct Written {
    uint64_t hash = 0;
    Epoch before;  // of the record before it
    absl::Cord record;
  };
  std::vector<std::map<std::pair<Epoch, Lsn>, Written>> records_;
  std::vector<std::map<JobId, std::map<Lsn, Clock>>> clocks_;  // min clocks, by the records that moved them
  std::vector<std::pair<Epoch, uint64_t>> floors_;  // where each began empty last, and its floor there
  std::vector<std::pair<Epoch, ring::Member>>
      answered_;  // the newest epoch in which a shard has answered, and that shard
  std::map<std::pair<ring::Member, SegmentId>, log::LogPosition> logs_;  // the position of each member's log
  // States that the logs went through, one of each segment: the next request is mostly for a later one.
  std::map<SegmentId, log::Segment> replayed_;
  // The rows of a table of means once the clocks below the key were folded.
  using States = std::map<Clock, std::shared_ptr<const LoggedTable::Rows>>;
  std::map<std::pair<SegmentId, TableId>, States> means_;
  // Of the changes that all segments have agreed, by table and number.
  struct Agreed {
    Clock clock = 0;
    uint32_t bound = 0;
  };
  std::map<TableId, std::map<uint64_t, Agreed>> agreed_;
  // Which change's rates a part was applied at, by its segment, session and number.
  std::map<std::tuple<SegmentId, SessionId, PartNumber>, uint64_t> rated_;
  std::set<JobId> meant_;
  std::map<uint64_t, std::optional<Clock>> cuts_asked_;
  std::map<std::tuple<SegmentId, Epoch, Lsn>, LoggedCut> cuts_;  // by the place of their records
  struct Snapshot {
    std::vector<ring::Member> primaries;  // of the segments, when it was begun
    // Once it is complete:
    SnapshotRows rows;
    bool exact = false;
    bool again = false;  // its first cut failed
  };
  std::map<std::string, Snapshot> snapshots_;
  std::map<std::pair<SessionId, SegmentId>, Heard> heard_;
};

}  // namespace paceline::sim
