#pragma once

#include <deque>
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
// the reply when the last of them has answered. Replies go out in the order in which they are complete.
class PullStream : public ReplyingStream, public std::enable_shared_from_this<PullStream> {
 public:
  explicit PullStream(Context& context)
      : ReplyingStream(context, "pull"), filters_(context, Probe::Traffic::kPull) {}

  bool TakesFrame() override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnBroken(absl::Status why) override;

  // For the pulls under way.
  void Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved) override;

 private:
  bool RepliesWait() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !replies_.empty(); }
  void Greeted(wire::Frame<v1::PullRequest> request);
  // A frame that is owed no reply has been dealt with.
  void NothingToSay();
  // No pull is read until fewer replies wait to be sent.
  bool Stopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Waiting {
    absl::Cord frame;
    uint64_t reserved = 0;
  };

  std::optional<Caller> caller_;
  StreamFilters filters_;
  std::deque<Waiting> replies_ ABSL_GUARDED_BY(mutex_);
  uint64_t replies_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of their values
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;        // the carrier reads no frame until ReadOn
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // frames that are owed a reply, and how many were given
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::shard
