#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace paceline::shard {

// Keeps frames under way after they were applied. Their clients, which may have one window under way
// (docs/wire.md), so slow down to the pace of the disk. After a refusal all later parts of the line would
// travel again. Thread-safe.
class HeldBack {
 public:
  // Holds no frame for longer: refusals report a disk that fails, and name the cause.
  static constexpr absl::Duration kLongest = absl::Milliseconds(500);

  // `frame` is under way as long as anybody owns it.
  void Hold(std::shared_ptr<const void> frame, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    frames_.push_back({.frame = std::move(frame), .since = now});
    ++held_;
  }

  // Lets go of all, or, with `slow`, of those that were held for long enough.
  void LetGo(bool slow, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::shared_ptr<const void>> ended;  // destroyed without the lock
    MutexLock lock(&mutex_);
    while (!frames_.empty() && (!slow || now >= frames_.front().since + kLongest)) {
      ended.push_back(std::move(frames_.front().frame));
      frames_.pop_front();
    }
  }

  // So far.
  uint64_t held() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return held_;
  }

 private:
  struct Held {
    std::shared_ptr<const void> frame;
    absl::Time since;
  };

  mutable Mutex mutex_;
  std::deque<Held> frames_ ABSL_GUARDED_BY(mutex_);  // the longest held first
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::shard
