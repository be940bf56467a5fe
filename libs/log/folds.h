#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/record.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"
#include "libs/log/shard_side.h"
#include "libs/log/staging.h"

namespace paceline::log {

// Aggregated tables at the primary: judges which parts may be staged, and says which record moves a job's min
// clock next: the fold of a clock that every worker has ticked past, or an advance past clocks without parts.
// Soft state. Single owner, no locks; time is passed in.
class Folds {
 public:
  // If parts of the next clock to be folded find no room for this long, they are refused for good: parts
  // already staged wait for them.
  static constexpr absl::Duration kRoomWaitMax = absl::Seconds(30);
  // The most bytes of rows that one clock may fold in a segment: the fold is one record, which is made and
  // applied at once, and meanwhile its shard answers no beacon.
  static constexpr uint64_t kFoldBytesMax = uint64_t{256} << 20;

  // Staged parts take their room from `room`.
  explicit Folds(std::shared_ptr<StagingRoom> room) : room_(std::move(room)) {}

  // The session's parts that are here: applied, or staged.
  clock::LineCounts Here(SessionId session, const Segment& segment) const;
  // The clock by which an empty part of a worker is staged. It may stand for one that was refused for its
  // clock.
  Clock ClockOfEmpty(const Update& update, const clock::JobClock& clock) const;

  // INVALID_ARGUMENT, or as CheckContent. A part that is staged is folded later, and may not fail then.
  // REQUIRES: the part has rows, and its session is open.
  absl::Status Check(const Part& part, const Segment& segment) const;
  // The most bytes that the fold of the part's clock may have with it.
  uint64_t FoldedBytesWith(const Part& part, const Segment& segment) const;
  // Takes room for the part; `ahead` as for StagingRoom. RESOURCE_EXHAUSTED: there is none as yet.
  // INVALID_ARGUMENT: there was none for too long.
  absl::Status FindRoom(const Part& part, bool ahead, const Segment& segment, absl::Time now);
  // Stages a part that may be, and for which room was found. `update` is the part's, perhaps of a later
  // clock.
  void Put(const Part& part, const Update& update);
  // As Staging::Tell.
  void Tell(SessionId session, std::shared_ptr<AckSink> sink) { staging_.Tell(session, std::move(sink)); }

  struct Step {
    Record record;
    // The acknowledgements that follow: each sink, and the number up to which its session's parts are folded.
    std::vector<std::pair<std::shared_ptr<AckSink>, PartNumber>> folded;
  };
  // The record that moves the job's min clock next; the parts of a fold are staged no longer. Clocks without
  // parts are passed without a fold, but not `stop`. nullopt: the min clock stays.
  std::optional<Step> Next(JobId job, const clock::JobClock& clock, std::optional<Clock> stop);

  // As those of Staging; and gives back the room.
  template <class Id>
  void Drop(Id id) {
    room_->Unstage(staging_.Drop(id));
  }
  void Clear() { room_->Unstage(staging_.Clear()); }
  const Staging& staging() const { return staging_; }

 private:
  std::shared_ptr<StagingRoom> room_;
  Staging staging_;
  std::map<JobId, absl::Time> no_room_since_;  // since when parts of the next clock to be folded find no room
};

}  // namespace paceline::log
