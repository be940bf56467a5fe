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
#include "libs/log/segment.h"
#include "libs/log/shard_side.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {

// One segment at a replica or learner: applies the primary's records, reports how far it is, and notices
// when the primary falls silent. It takes only frames that continue its own log: each frame names the record
// before its first one, and the epoch in which that record was written.
//
// Single owner, no locks, no I/O; time is passed in.
class Follower {
 public:
  // Memory counts as short when the shard has no more than this many bytes left. The follower then drops a
  // state that may never be needed, so that pushes need not be refused.
  static constexpr uint64_t kLeftToOthers = uint64_t{1} << 20;

  // `shard` is told of memory and of applied records. The new follower holds nothing.
  Follower(SegmentId segment, int ring_bits, ShardSide shard);
  // The empty segment, as it is before the first record of the first epoch.
  static Follower Empty(SegmentId segment, int ring_bits, ShardSide shard);
  // Continues from the state of a primary that stepped down.
  Follower(Segment segment, LogTail tail, ShardSide shard);
  ~Follower();
  Follower(Follower&&) = default;
  Follower& operator=(Follower&&) = delete;

  // Takes a frame from the primary of the frame's epoch, which the caller has verified. The caller sends the
  // returned answer back. `member`: a configuration of that epoch counts on this follower's state, so no
  // image replaces it.
  v1::ReplicateReply::Ack Take(const v1::ReplicateRequest::Segment& frame, absl::Cord body,
                               bool member = false);

  // True if it holds a state that could be served, and not an incomplete image.
  bool whole() const { return segment_.has_value() && segment_->version() >= whole_; }
  // True while an incomplete image is to replace a state that could be served. The old state is kept until
  // the image is whole or memory is short: it may be the last copy of the segment.
  bool keeps() const { return kept_.has_value(); }
  // Position of the last record of the state it could fall back to: the kept one, or else the present one.
  // Zeros: none.
  LogPosition fallback() const;
  // Returns to the kept state, if there is one.
  void FallBack();
  // Position of the last record. Zeros: nothing is held.
  LogPosition position() const;
  const LogTail& tail() const { return tail_; }
  const Segment* segment() const { return segment_.has_value() ? &*segment_ : nullptr; }

  // Ends its life as a follower and hands over its state. REQUIRES: whole().
  struct State {
    Segment segment;
    LogTail tail;
  };
  State Release();

 private:
  void TakeImage(const v1::ReplicateRequest::Segment& frame);
  absl::Status TakePages(const v1::ReplicateRequest::Segment& frame);
  // A piece of a record that is larger than a frame: false if the one before it did not come. Moves all
  // of a record that is complete to `body`.
  bool TakePiece(const v1::ReplicateRequest::Segment& frame, absl::Cord& body);
  // Fails if the records cannot be read or applied.
  absl::Status TakeRecords(const v1::ReplicateRequest::Segment& frame, const absl::Cord& body);
  void Discard();
  void CountMemory();
  bool MemoryIsShort() const;

  SegmentId id_;
  int ring_bits_;
  ShardSide shard_;
  std::optional<Segment> segment_;
  LogTail tail_;
  Lsn whole_;  // the state is whole once this is applied: pages are of versions up to here
  Lsn newest_page_;
  uint64_t transfer_ = 0;  // the image under way
  uint64_t pages_ = 0;     // pages of it that have come
  bool image_complete_ = true;
  // The first bytes of the next record, which comes in pieces; and by whom they were sent.
  absl::Cord pieces_;
  Epoch pieces_epoch_;
  uint64_t pieces_transfer_ = 0;
  std::optional<State> kept_;
  int64_t counted_ = 0;  // bytes reported to the shard
};

// A follower's view of whether its primary is alive. Each beacon that it answers lends the primary its place
// for the beacon's L after it was sent, hence for less than G after it arrived. The latest of these ends
// counts in any epoch: a primary keeps its loans in its next epoch.
class PrimaryWatch {
 public:
  // From now on beacons of `epoch` count.
  void Begin(Epoch epoch, absl::Time now) {
    if (epoch == epoch_) return;
    epoch_ = epoch;
    Heard(kLease, now);
  }
  void Heard(absl::Duration lease, absl::Time now) {
    lease_ = lease;
    until_ = std::max(until_, now + Patience(lease));
  }
  // This process stood still, so it cannot know whether the primary was silent.
  void ListenAfresh(absl::Time now) { Heard(lease_, now); }
  // True once the primary's loan is over: another primary may be wished for.
  bool Silent(absl::Time now) const { return now >= until_; }

 private:
  Epoch epoch_;
  absl::Duration lease_ = kLease;  // of the last beacon
  absl::Time until_ = absl::InfinitePast();
};

}  // namespace paceline::log
