#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "services/shard/context.h"
#include "services/shard/streams/hello.h"
#include "services/shard/streams/pull_op.h"
#include "services/shard/streams/replying_stream.h"
#include "services/shard/streams/stream_filters.h"

namespace paceline::shard {

// One Pull stream: takes requests apart, lets each segment write its rows into the reply's memory, and sends
// the reply when the last of them has answered. Of the replies that are complete, the one of the lowest
// priority number goes out first, and of these the one that was complete first.
//
// Rows are read faster than a connection carries them. When many bytes of replies wait, the stream serves no
// further request. It goes on to read requests if they have priorities, so that an urgent one overtakes those
// that came before it, and serves them by priority when there is room.
class PullStream : public ReplyingStream, public std::enable_shared_from_this<PullStream> {
 public:
  explicit PullStream(Context& context)
      : ReplyingStream(context, "pull"), filters_(context, Probe::Traffic::kPull) {}

  bool TakesFrame() override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnBroken(absl::Status why) override;

  // For the pulls under way.
  void Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved, uint32_t priority) override;

 private:
  bool RepliesWait() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !replies_.empty(); }
  using Request = wire::Frame<v1::PullRequest>;

  void Greeted(Request request);
  // Serves it, now or when there is room for its reply. `notes`, here and below, as for PullOp.
  void Take(Request request, filter::ListNotes* notes, uint64_t bytes, bool alone);
  void Serve(Request request, filter::ListNotes* notes, bool alone);
  // A frame that is owed no reply has been dealt with.
  void NothingToSay();
  // No pull is served until fewer replies wait to be sent.
  bool Stopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // … and none is read.
  bool Full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The most urgent request that waits for room, if there is room.
  std::optional<Request> TakeWaiting() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Waiting {
    absl::Cord frame;
    uint64_t reserved = 0;
    uint32_t priority = 0;
  };
  struct WaitingRequest {
    Request request;
    uint64_t bytes = 0;
  };

  std::optional<Caller> caller_;
  uint64_t pauses_ = 0;  // of the thread that brought the last frame (Soon::Pauses)
  StreamFilters filters_;
  std::deque<Waiting> replies_ ABSL_GUARDED_BY(mutex_);  // by priority
  bool by_priority_ ABSL_GUARDED_BY(mutex_) = false;     // some request had another one than 0
  std::multimap<uint32_t, WaitingRequest> requests_
      ABSL_GUARDED_BY(mutex_);  // that wait for room, by priority
  uint64_t requests_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t replies_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of their values
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;        // the carrier reads no frame until ReadOn
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // frames that are owed a reply, and how many were given
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::shard
