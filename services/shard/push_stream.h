#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/log/primary.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/hello.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// One Push stream: takes frames apart, hands parts and ticks to their segments, and gathers what goes back —
// both marks, refusals, answers to ticks — until the carrier asks for a frame; what gathered meanwhile
// travels as one.
//
// Frames arrive on one thread at a time; marks arrive from executors at any time.
class PushStream : public world::AcceptedStream,
                   public log::AckSink,
                   public std::enable_shared_from_this<PushStream> {
 public:
  explicit PushStream(Shard& shard);
  ~PushStream() override;

  void Attach(std::shared_ptr<world::StreamPort> port) override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnFinished() override;
  void OnBroken(absl::Status why) override;

  // Noted; goes out with the next frame, which is asked for when the frame at hand is done.
  void Committed(wire::Mark mark) override;

 private:
  using Request = wire::Frame<v1::PushRequest>;

  // What this stream's ticks said last of one segment. Each is touched by its segment's executor only.
  struct Named {
    uint64_t tenure = 0;  // SegmentHost::tenure() when it was named; 0: not named
    clock::LineCounts counts;
  };
  // What one tick says of one segment, by line.
  struct Said {
    std::array<std::optional<PartNumber>, 2> counts;
  };
  // Held by everyone at work on a frame; the last one to let go makes the frame count as received.
  class Ticket;
  struct RoutedPart {
    SegmentId segment;
    Epoch sender_epoch;
    log::Part part;
  };

  void Greeted(const v1::Hello& hello);
  absl::StatusOr<std::vector<RoutedPart>> TakeApart(const v1::PushRequest& head, absl::Cord keys,
                                                    absl::Cord values,
                                                    const std::vector<wire::PartEntry>& entries,
                                                    const Shard::View& view);
  void HandOut(std::vector<RoutedPart> parts, const std::shared_ptr<Ticket>& ticket);
  void HandOutTick(const v1::Tick& tick, const std::vector<wire::Seal>& seals,
                   const std::shared_ptr<Ticket>& ticket, uint32_t segments);
  // Whether the tick speaks for the segment; if so its primary has heard it.
  bool Speaks(SegmentHost& host, const Said& said, Clock clock);
  void RefuseAll(const std::vector<wire::PartEntry>& entries, v1::Line line, const v1::Refusal& refusal);
  void Refuse(v1::Refusal refusal, uint64_t frame);
  // False: the client is beyond its window or does not read; the stream is being closed.
  bool FrameBegun(uint64_t bytes);
  void FrameDone(uint64_t bytes);
  void Kick();

  Shard& shard_;
  std::optional<Caller> caller_;  // after Hello
  uint64_t frame_ = 0;            // count of the frame at hand
  std::vector<Named> named_;      // by segment; sized with the first tick

  absl::Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more
  v1::PushReply reply_ ABSL_GUARDED_BY(mutex_);    // what gathered, but the marks
  std::map<std::pair<SegmentId, Line>, PartNumber> marks_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;  // frames counted, and how many are done with
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::shard
