#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/world/port.h"
#include "services/shard/context.h"
#include "services/shard/streams/hello.h"
#include "services/shard/streams/pull_op.h"
#include "services/shard/streams/stream_watch.h"

namespace paceline::shard {

// One Pull stream: takes requests apart, lets each segment write its rows into the reply's memory, and sends
// the reply when the last of them has answered. Replies go out in the order in which they are complete.
class PullStream : public world::AcceptedStream,
                   public PullReplies,
                   public WatchedStream,
                   public std::enable_shared_from_this<PullStream> {
 public:
  explicit PullStream(Context& context);
  ~PullStream() override;

  void Attach(std::shared_ptr<world::StreamPort> port) override;
  bool TakesFrame() override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnFinished() override;
  void OnBroken(absl::Status why) override;

  // For the pulls under way.
  void Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved) override;
  void Fail(uint64_t request, v1::Refusal refusal) override;
  bool Reserve(uint64_t bytes) override;
  // It has broken, or is being closed because its replies are not read.
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }
  void OnTime(absl::Time now, bool crowded) override;

 private:
  void Greeted(wire::Frame<v1::PullRequest> request);
  // A frame that is owed no reply has been dealt with.
  void NothingToSay();
  // No pull is read until fewer replies wait to be sent.
  bool Stopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Waiting {
    absl::Cord frame;
    uint64_t reserved = 0;
  };

  Context& context_;
  const absl::Time opened_;
  std::optional<Caller> caller_;
  std::atomic<bool> greeted_{false};  // caller_ is set
  std::atomic<bool> ended_{false};    // written under mutex_, like what follows

  Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more
  std::deque<Waiting> replies_ ABSL_GUARDED_BY(mutex_);
  uint64_t replies_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of their values
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;        // the carrier reads no frame until ReadOn
  uint64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_);  // when a reply went out, or none waited, last
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // frames that are owed a reply, and how many were given
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::shard
