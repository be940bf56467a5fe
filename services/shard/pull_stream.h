#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/shard/hello.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// One Pull stream: takes requests apart, lets each segment write its rows into the reply's memory, and sends
// the reply when the last of them has answered. Replies go out in the order in which they are complete.
class PullStream : public world::AcceptedStream, public std::enable_shared_from_this<PullStream> {
 public:
  explicit PullStream(Shard& shard);
  ~PullStream() override;

  void Attach(std::shared_ptr<world::StreamPort> port) override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnFinished() override;
  void OnBroken(absl::Status why) override;

 private:
  friend class PullOp;

  // Queues a reply whose values take `reserved` bytes of the stream's budget.
  void Reply(absl::Cord frame, uint64_t reserved);
  void Fail(uint64_t request, v1::Refusal refusal);
  // False: too many bytes of replies are waiting already.
  bool Reserve(uint64_t bytes);

  struct Waiting {
    absl::Cord frame;
    uint64_t reserved = 0;
  };

  Shard& shard_;
  std::optional<Caller> caller_;

  absl::Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more
  std::deque<Waiting> replies_ ABSL_GUARDED_BY(mutex_);
  uint64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // frames that are owed a reply, and how many were given
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::shard
