#pragma once

#include <cstdint>
#include <string>

#include "services/shard/streams/pull_op.h"
#include "services/shard/streams/served_stream.h"

namespace paceline::shard {

// A stream of a client on which rows go back: it counts what its replies take until the client reads them.
class ReplyingStream : public ServedStream, public PullReplies {
 public:
  void Fail(uint64_t request, v1::Refusal refusal) override;
  bool Reserve(uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }

 protected:
  ReplyingStream(Context& context, std::string kind);

  virtual bool RepliesWait() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  bool Unread(absl::Time now) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A reply is about to wait, for which `reserved` bytes were reserved. Returns how many it takes:
  // certificates and refusals take memory too.
  uint64_t Waits(uint64_t reserved, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It goes out.
  void GoesOut(uint64_t takes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  uint64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // of replies under way and waiting
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_);     // when a reply went out, or none waited, last
};

}  // namespace paceline::shard
