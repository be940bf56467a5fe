#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/log/primary.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/context.h"
#include "services/shard/streams/hello.h"
#include "services/shard/streams/pull_op.h"
#include "services/shard/streams/replying_stream.h"
#include "services/shard/streams/stream_filters.h"

namespace paceline::shard {

// One Push or PushPull stream: takes frames apart, hands parts and ticks to their segments, and gathers what
// goes back — both marks, refusals, answers to ticks — until the carrier asks for a frame; what gathered
// meanwhile travels as one.
//
// On a PushPull stream a frame may want its rows back: each part is then read behind its update, on the same
// executor, by a pull whose reply goes to this stream. A read that has to wait is parked as any; the frame
// counts as received all the same, and later ones go on.
//
// Frames arrive on one thread at a time; marks arrive from executors at any time.
//
// More than 15 members: where each direction of the stream stands: frames under way, windows, marks and reads
// that wait.
class PushStream : public ReplyingStream,
                   public log::AckSink,
                   public std::enable_shared_from_this<PushStream> {
 public:
  // `rows`: it is a PushPull stream.
  PushStream(Context& context, bool rows)
      : ReplyingStream(context, "push"), rows_(rows), filters_(context, Probe::Traffic::kPush) {}

  bool TakesFrame() override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnBroken(absl::Status why) override;

  // Noted; goes out with the next frame, which is asked for when the frame at hand is done.
  void Committed(wire::Mark mark) override;
  void Wake() override { KickSoon(); }

  // For the pulls under way (push_pull.cc).
  void Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved, uint32_t priority) override;
  void OnRoom() override;

 private:
  // Messages of both kinds of streams are read and written as those of PushPull, which have all fields of the
  // others under the same numbers.
  using Request = wire::Frame<v1::PushPullRequest>;

  // The last word of this stream's ticks about one segment. Only the segment's executor touches it.
  struct Named {
    uint64_t tenure = 0;  // SegmentHost::tenure() when it was named; 0: not named
    clock::LineCounts counts;
    std::array<bool, 2> ever = {};  // by line: named on this stream
    std::array<bool, 2> anew = {};  // the same, in this tenure
  };
  // The word of one tick about one segment, by line.
  struct Said {
    std::array<std::optional<PartNumber>, 2> counts;
  };
  // The last part that a segment has of each line, where that is less than the tick said.
  using Behind = std::array<std::optional<PartNumber>, 2>;
  // Everyone at work on a frame holds it; the last one to let go ends the frame.
  class Ticket;
  struct RoutedPart {
    SegmentId segment;
    Epoch sender_epoch;
    log::Part part;
    size_t index = 0;  // in the frame
  };
  struct UnderWay {
    uint64_t bytes = 0;
    bool done = false;
  };
  struct Rows {
    wire::Frame<v1::PullReply> reply;
    uint64_t reserved = 0;
  };

  // MALFORMED: the frame is too large, or cannot be read. `weight`: the bytes that it counts for.
  absl::StatusOr<Request> Decode(absl::Cord bytes, uint64_t& weight);
  void Greeted(Request request);
  absl::StatusOr<std::vector<RoutedPart>> TakeApart(const v1::PushPullRequest& head, absl::Cord keys,
                                                    absl::Cord values,
                                                    const std::vector<wire::PartEntry>& entries,
                                                    const View& view);
  // `read`, if it is not null, reads each part behind its update.
  void HandOut(std::vector<RoutedPart> parts, TableId table, const std::shared_ptr<Ticket>& ticket,
               const std::shared_ptr<PullOp>& read);
  // -- push_pull.cc --
  bool RepliesWait() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !waiting_rows_.empty(); }
  bool WantsRows(const v1::PushPullRequest& head) const { return rows_ && head.want_reply(); }
  // nullptr: the frame wants no rows, or the request for them was refused.
  std::shared_ptr<PullOp> ReadOf(const Request& request, const std::vector<wire::PartEntry>& entries);
  // Refuses the read of a frame that was refused as a whole.
  void FailRead(uint64_t request, v1::Refusal refusal);
  // All reads of the client are answered and sent.
  bool AllRowsSent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return reads_ == 0 && waiting_rows_.empty();
  }
  // Leaves the largest mark of each segment and line, in their order.
  void JoinMarks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the oldest rows that wait into `reply`.
  void AddRows(wire::Frame<v1::PushPullReply>& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandOutTick(const v1::Tick& tick, const std::vector<wire::Seal>& seals,
                   const std::shared_ptr<Ticket>& ticket, uint32_t segments);
  std::optional<v1::Refusal> RefuseStranger(const log::Update& update, SegmentId segment) const;
  // True: the tick speaks for the segment, and its primary has heard it.
  bool Speaks(SegmentHost& host, const Said& said, Clock clock);
  // REQUIRES: the tick has been heard.
  Behind BehindOf(SegmentHost& host) const;
  void RefuseAll(const std::vector<wire::PartEntry>& entries, v1::Line line, const v1::Refusal& refusal);
  void Refuse(v1::Refusal refusal, uint64_t frame);
  // No frame is read: the client does not read answers, or has sent more than it was granted; or there is no
  // room at all; OnRoom is then called once there is some.
  bool Stopped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NoRoom() const;
  // A frame is under way from now on; one that is `free` takes no bytes of the budget.
  void FrameBegun(uint64_t bytes, bool free);
  // The frame of this number ends. Its parts were taken up so many nanoseconds after it had arrived; -1: it
  // has none.
  void FrameDone(uint64_t frame, absl::Time arrived, int64_t taken_ns);
  // Those of the first frames that have ended count as received, and their bytes are granted anew.
  void FreeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool rows_;
  std::optional<Caller> caller_;  // after Hello
  StreamFilters filters_;
  uint64_t frame_ = 0;                        // count of the frame at hand
  std::shared_ptr<filter::ListNotes> notes_;  // of the list that its keys are; null: they are none
  std::vector<Named> named_;                  // by segment; sized with the first tick
  bool ticked_without_map_ = false;

  v1::PushPullReply reply_ ABSL_GUARDED_BY(mutex_);        // what gathered, but marks and rows
  std::vector<wire::Mark> marks_ ABSL_GUARDED_BY(mutex_);  // those of a line: the largest counts
  size_t marks_joined_ ABSL_GUARDED_BY(mutex_) = 0;        // so many were left when they were joined last
  std::deque<UnderWay> frames_ ABSL_GUARDED_BY(mutex_);    // after the first `received_`, which are done with
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // frames, wherever they stand
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;    // the carrier reads no frame until ReadOn
  // The stream's part of the budget (stream_budget.h): it holds `limit_` - `freed_` bytes. Cumulative.
  bool fixed_ ABSL_GUARDED_BY(mutex_) = false;  // a client of level 1: a window of `window_` bytes
  uint64_t window_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t granted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t freed_ ABSL_GUARDED_BY(mutex_) = 0;         // of the first frames that have ended
  uint64_t limit_ ABSL_GUARDED_BY(mutex_) = 0;         // max(granted_, arrived_); 0: before the Hello
  uint64_t unsaid_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of frames whose end the peer has not been told of
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  std::deque<Rows> waiting_rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
