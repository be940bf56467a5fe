#pragma once

#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/lease.h"
#include "libs/log/log_tail.h"
#include "libs/log/primary.h"
#include "libs/log/segment.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {

// One segment at a replica or learner: applies what the primary sends, says what it holds, and notices when
// the primary falls silent. It trusts its log only as far as it agrees with the primary's: a frame names the
// record before its first, with the epoch that one was written in, and what does not continue this very log
// is not taken.
//
// Single owner, no locks, no I/O; time is passed in.
class Follower {
 public:
  // Memory is short when the shard has no more than this: rather than refuse pushes nothing is kept that may
  // never be needed.
  static constexpr uint64_t kLeftToOthers = uint64_t{1} << 20;

  // `budget` hears of memory and of what is applied. Holds nothing.
  Follower(SegmentId segment, int ring_bits, std::shared_ptr<Budget> budget);
  // The empty segment, before the first record of the first epoch.
  static Follower Empty(SegmentId segment, int ring_bits, std::shared_ptr<Budget> budget);
  // A primary that stepped down.
  Follower(Segment segment, LogTail tail, std::shared_ptr<Budget> budget);
  ~Follower();
  Follower(Follower&&) = default;
  Follower& operator=(Follower&&) = delete;

  // Takes a frame of the primary of frame's epoch, which the caller has judged. The answer is to go back.
  // With `member`, a configuration of that epoch counts on what it has: then nothing takes its place.
  v1::ReplicateReply::Ack Take(const v1::ReplicateRequest::Segment& frame, const absl::Cord& body,
                               bool member = false);

  // It holds a state that could be served: not in the middle of an image.
  bool whole() const { return segment_.has_value() && segment_->version() >= whole_; }
  // The image that is under way is to replace a state that could be served. That one is kept until the image
  // is whole, or memory is short: it may be all that is left of the segment.
  bool keeps() const { return kept_.has_value(); }
  // Of the last record of what it could go back to: what it keeps, or holds; zeros: nothing.
  LogPosition fallback() const;
  // Goes back to what it keeps, if there is anything.
  void FallBack();
  // Of the last record; zeros: nothing is held.
  LogPosition position() const;
  const LogTail& tail() const { return tail_; }
  const Segment* segment() const { return segment_.has_value() ? &*segment_ : nullptr; }

  // The end of its life as a follower. REQUIRES: whole().
  struct State {
    Segment segment;
    LogTail tail;
  };
  State Release();

 private:
  void TakeImage(const v1::ReplicateRequest::Segment& frame);
  absl::Status TakePages(const v1::ReplicateRequest::Segment& frame);
  // Status: the records could not be read.
  absl::Status TakeRecords(const v1::ReplicateRequest::Segment& frame, const absl::Cord& body);
  void Discard();
  void CountMemory();
  bool MemoryIsShort() const;

  SegmentId id_;
  int ring_bits_;
  std::shared_ptr<Budget> budget_;
  std::optional<Segment> segment_;
  LogTail tail_;
  Lsn whole_;  // pages are of versions up to here
  Lsn newest_page_;
  uint64_t transfer_ = 0;  // the image under way
  uint64_t pages_ = 0;     // of it
  bool image_complete_ = true;
  std::optional<State> kept_;
  int64_t counted_ = 0;  // bytes the budget knows of
};

// Whether a primary is still there, as its follower sees it. Each beacon that is answered lends the primary
// its place for the beacon's L from when it was sent, so for less than G after it came; the latest of these
// ends counts, in whichever epoch it was: a primary takes what it was lent along into its next one.
class Watch {
 public:
  // What counts from now on is epoch `epoch`.
  void Begin(Epoch epoch, absl::Time now) {
    if (epoch == epoch_) return;
    epoch_ = epoch;
    Heard(kLease, now);
  }
  void Heard(absl::Duration lease, absl::Time now) {
    lease_ = lease;
    until_ = std::max(until_, now + Patience(lease));
  }
  // This process stood still: it cannot know.
  void ListenAfresh(absl::Time now) { Heard(lease_, now); }
  // What was lent is over, and another primary may be wished for.
  bool Silent(absl::Time now) const { return now >= until_; }

 private:
  Epoch epoch_;
  absl::Duration lease_ = kLease;  // that was lent last
  absl::Time until_ = absl::InfinitePast();
};

}  // namespace paceline::log
