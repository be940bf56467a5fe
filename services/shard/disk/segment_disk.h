#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"
#include "libs/log/lease.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment.h"
#include "libs/log/segment_image.h"
#include "paceline/v1/replication.pb.h"
#include "services/shard/disk/disk.h"

namespace paceline::shard {

// Keeps the disk's copy of one segment: writes every record as it is applied, and from time to time a base
// and the pages that have changed, so that the log can be cut. docs/persistence.md.
//
// A base begins with an image of all but the rows, as of LSN a. Then the pages that have changed go out
// little by little, each as of the LSN at which it is copied. Then the base is written and cuts the log at a.
// Until then the earlier base counts, with its longer log. The newer pages do no harm: records up to a page's
// version leave it alone.
//
// Belongs to the segment's owner: everything goes into a batch of its executor, in the order of the calls.
//
// More than 15 members: where the log, the base and the pages stand; a mark from the disk may move all three.
class SegmentDisk {
 public:
  // If somebody waits for the disk, and it makes no progress for so long, nobody should wait for it any more.
  static constexpr absl::Duration kStalls = absl::Seconds(10);

  struct Pace {
    // A base is due when the log since the last one has so many bytes, and half as many as the segment's
    // rows.
    uint64_t log_bytes = uint64_t{4} << 20;
    // It is due, too, when the last one is so old and there is a log.
    absl::Duration log_age = absl::Minutes(5);
    // The bytes of pages that go out in one step.
    size_t step_bytes = size_t{512} << 10;
    // The same for the first base: a copy does not count before it is there.
    size_t first_step_bytes = size_t{2} << 20;
  };

  // The disk's copy as it was found.
  struct Found {
    bool anything = false;
    bool usable = false;  // the segment can be gone on from
    Lsn held;             // as of this record
    uint64_t log_bytes = 0;
    std::map<engine::PageKey, Lsn> pages;  // as of which record each is good
  };

  // `batch` and `disk` outlive this. With `all_waited_for` every record is waited for; otherwise those that
  // the coordinator is answered about, and the first base.
  SegmentDisk(SegmentId segment, engine::Batch& batch, const Disk& disk, bool all_waited_for = false)
      : SegmentDisk(segment, batch, disk, Pace(), all_waited_for) {}
  SegmentDisk(SegmentId segment, engine::Batch& batch, const Disk& disk, const Pace& pace,
              bool all_waited_for = false)
      : segment_(segment), batch_(batch), disk_(disk), pace_(pace), all_waited_for_(all_waited_for) {}
  // Continues from the copy that was found. Call before anything else.
  void Restore(Found found);

  // False: the copy may be given up when the disk is far behind. True where somebody was told, or will be,
  // that an acknowledged part is there.
  void Keep(bool keep) { keep_ = keep; }

  // `record` has been applied to `segment`.
  void OnRecord(const log::Segment& segment, const log::AppliedRecord& record);
  // Another state takes the place of the one on disk, or none does.
  void Forget();
  // A step towards the next base, if there is one to be made. `segment` is a state that could be served.
  log::NextVisit OnTime(const log::Segment& segment, absl::Time now);

  // Marks what went to the disk since the last call, if somebody waits for it. The caller has it synced soon
  // and then calls OnDurable. nullopt: nothing went, or nobody waits.
  struct Mark {
    uint64_t life = 0;  // of what the disk has; Forget ends it
    Lsn lsn;            // the disk has the segment up to here then; 0: not as a whole yet
  };
  std::optional<Mark> TakeMark();
  // True: the disk has more than before.
  bool OnDurable(const Mark& mark);
  // After a loss of power the segment would be back up to this record.
  Lsn durable() const { return durable_; }
  // The disk can be counted on, or not, as of the last OnTime.
  v1::ReplicateReply::DiskState state() const;
  bool ready() const { return durable_ != Lsn(); }

  // The disk has, or was given, all that it takes to continue from here.
  bool usable() const { return state_ == State::kWritten && usable_; }
  // The disk has something that nobody can continue from.
  bool HasRemains() const { return anything_ && !usable(); }
  uint64_t log_bytes() const { return log_bytes_; }
  // Bases that were written.
  uint64_t bases() const { return bases_; }

 private:
  enum class State {
    kNothing,  // and records are not written: a base has to be begun first
    kWritten,  // every record is
  };
  struct Walk {
    Lsn at;
    std::string image;
    log::PageWalk pages;
    uint64_t log_bytes = 0;  // of records that the base does not replace
    std::set<engine::PageKey> seen;
  };

  // So much waits to be written that the disk's copy of the segment is given up.
  bool IsLost() const;
  void Begin(const log::Segment& segment);
  void Step(const log::Segment& segment, absl::Time now);
  void End(absl::Time now);
  bool Due(const log::Segment& segment, absl::Time now) const;
  // Somebody waits for the disk.
  bool Waits() const { return !ready() || (all_waited_for_ ? given_ : wanted_) > durable_; }
  void Watch(absl::Time now);

  const SegmentId segment_;
  engine::Batch& batch_;
  const Disk& disk_;
  const Pace pace_;
  const bool all_waited_for_;
  bool keep_ = false;
  State state_ = State::kNothing;
  bool anything_ = false;  // the disk may have something of the segment
  bool usable_ = false;    // it has a base, or the log from the first record on
  std::map<engine::PageKey, Lsn> pages_;
  std::optional<Walk> walk_;
  uint64_t log_bytes_ = 0;
  Lsn given_;            // the last record
  bool marked_ = false;  // something was given since the last mark
  uint64_t life_ = 1;
  Lsn durable_;
  Lsn wanted_;                                       // the last record that somebody waits for
  Lsn asked_;                                        // a mark was taken up to here; 0: none that counts
  bool moved_ = false;                               // it has come further since the last OnTime
  absl::Time waits_since_ = absl::InfiniteFuture();  // without coming further
  bool stalls_ = false;
  uint64_t bases_ = 0;
  absl::Time last_base_ = absl::InfinitePast();
};

}  // namespace paceline::shard
