#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "libs/filter/coder.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/pull/pull_op.h"
#include "sdk/cpp/src/push/segment_line.h"
#include "sdk/cpp/src/push/tick_teller.h"
#include "sdk/cpp/src/session/filter_counts.h"
#include "sdk/cpp/src/session/link.h"

namespace paceline::sdk {

class PushLink;

// Receives the links' reports about lines, and answers their questions.
class PushListener {
 public:
  virtual ~PushListener() = default;
  // A late part of the line has got its number, which it keeps.
  virtual void OnNumbered(const SegmentLine& line, const Part& part) = 0;
  // The number of parts of clocks < `clock`.
  virtual PartNumber SealedAt(SegmentId segment, Line line, Clock clock) const = 0;
  virtual void OnCommitted(PushLink& link, const wire::Mark& mark) = 0;
  virtual void OnRefusal(PushLink& link, const v1::Refusal& refusal) = 0;
  // The shard has the line only up to part `here`, though it was committed up to `committed`. The client
  // ends.
  virtual void OnLost(const PushLink& link, const SegmentLine& line, PartNumber here,
                      PartNumber committed) = 0;
};

// The push stream to one shard: a queue of its segments' lines that have parts to send, the bytes that the
// shard has granted (or, at level 1, a window of bytes that it has not taken yet), and the ticks.
//
// A frame carries the most urgent waiting part and, while they fit, those that follow in the queue and have
// the same table and clock, of this push and, if they are small, of later ones. Parts that want their rows
// back go only with those of the same push. A tick rides on the frame with the last part of the clock it
// ends.
//
// More than 15 members: where each direction of the stream stands: what waits, was sent, received and
// granted. A break resets them together.
class PushLink final : public Link {
 public:
  PushLink(Context& context, PushListener& listener, ring::ShardInfo shard);

  // The segments the shard is primary of, by the newest map.
  void SetSegments(absl::Span<const SegmentId> segments) { teller_.SetSegments(segments); }
  void ForgetTickOf(SegmentId segment) { teller_.Forget(segment); }

  // From now on this link sends the line.
  void Bind(SegmentLine& line);
  void Unbind(SegmentLine& line);
  // The line's parts have changed, or whether they may be sent.
  void Requeue(SegmentLine& line);

  // Breaks the stream if its carrier may hold a frame that shares lent values: one that the shard has not
  // reported as received. With `surely` also one that it has: it may be wrong. The frames are sent again.
  void BreakOff(absl::Status why, bool surely);

  // No frame with parts may be sent before the shard grants more.
  bool AwaitsGrant() const { return usable() && !IsGranted(parts_bytes_); }

  // What the shard last said of a frame that it took.
  struct FrameTimes {
    absl::Duration queue;  // its parts waited behind other work
    absl::Duration apply;  // then they were applied
  };
  const FrameTimes& frame_times() const { return frame_times_; }
  // Since when, at least, the shard is known to have taken this frame of the stream; nullopt: it is not
  // known, or in this visit only. Frame 0 is none.
  std::optional<absl::Time> TakenSince(uint64_t frame) const {
    return frame > 0 && frame <= received_ ? std::optional(received_at_) : std::nullopt;
  }
  // When parts that had waited for a grant could be sent, last.
  absl::Time granted_at() const { return granted_at_; }

  // Lines that this link sends, by segment.
  const absl::btree_map<uint64_t, SegmentLine*>& lines() const { return lines_; }

 protected:
  bool HasWork() const override;
  bool Next(absl::Cord* frame) override;
  void Receive(absl::Cord frame) override;
  void OnUp() override;
  void OnDown() override;

 private:
  using Request = wire::Frame<v1::PushPullRequest>;

  bool TickDue() const;
  // The latest clock whose end may be sent: no part of an earlier one waits in the queue, and every read that
  // must not see later updates has been answered.
  Clock TellableClock() const;
  void AddTick(v1::PushPullRequest& head);
  void SetTickTimer(absl::Duration pause);
  void OnTickTimer();

  struct Picked {
    SegmentLine* line;
    const Part* part;
  };
  // Takes those parts from the queue that share the next frame, and numbers those that have no number yet.
  // REQUIRES: the frame is sent.
  std::vector<Picked> Take();
  // One part for each segment, at most, goes in a frame like the first.
  bool OneEach(const Part& first) const;
  // With more bytes than this it has no parts of other pushes.
  size_t SharedBytesMax(const Part& first) const;
  // More parts may follow these bytes.
  bool IsGranted(uint64_t bytes) const { return feature_level() < 2 || bytes < granted_; }
  // A shard of level 1 grants nothing and has a fixed window, for frames without parts too.
  bool FitsWindow(size_t bytes) const;
  // Returns whether the request shares values that a caller has lent.
  bool Fill(const std::vector<Picked>& picked, Request& request) const;
  // Codes what was filled in, as the parts' table wants it and the shard takes it. REQUIRES: the request is
  // sent.
  void Code(const std::vector<Picked>& picked, Request& request);
  // Asks for the rows of the picked parts, if they want them.
  void AddRead(const std::vector<Picked>& picked, v1::PushPullRequest& head);
  void OnRows(wire::Frame<v1::PushPullReply>& reply);
  void OnReceived(uint64_t frames);
  void OnGranted(uint64_t bytes);
  void OnTickAck(const v1::TickAck& ack);
  // Compares the numbers that the shard has with those that were committed when the tick was sent.
  absl::Status CheckHere(const v1::TickAck& ack);

  PushListener& listener_;
  absl::btree_map<uint64_t, SegmentLine*> lines_;
  absl::btree_map<QueueKey, SegmentLine*> queue_;
  TickTeller teller_;
  absl::Time tick_again_ = absl::InfiniteFuture();  // when to check whether the tick was answered
  Backoff tick_pauses_;

  uint64_t reads_ = 0;  // counts requests for rows
  // The latest tick's number, and by line the committed number when it was sent. Answers to earlier ticks
  // prove nothing: parts may have been committed since.
  uint64_t ticks_ = 0;
  absl::btree_map<uint64_t, PartNumber> committed_then_;

  FilterCounts filter_counts_;

  // Of the current stream.
  filter::KeyEncoder key_encoder_;
  std::map<uint64_t, PullRequest> asked_;  // requests for rows, by id
  uint64_t sent_ = 0;                      // frames after the hello
  uint64_t lent_upto_ = 0;                 // the last of them that shares lent values
  uint64_t received_ = 0;                  // of them
  std::deque<size_t> unreceived_;          // bytes of each of the others
  uint64_t unreceived_bytes_ = 0;
  uint64_t parts_bytes_ = 0;                       // that all frames with parts count for
  uint64_t granted_ = 0;                           // of them
  absl::Time received_at_ = absl::InfinitePast();  // when received_ last grew
  absl::Time granted_at_ = absl::InfinitePast();
  FrameTimes frame_times_;
};

}  // namespace paceline::sdk
