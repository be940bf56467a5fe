#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace paceline::shard {

// A stream that ends when its client says nothing, or reads nothing, for too long. Called from any thread.
class WatchedStream {
 public:
  virtual ~WatchedStream() = default;
  // `crowded`: more than half of what replies may take in all is taken.
  virtual void OnTime(absl::Time now, bool crowded) = 0;
  // There is room for what clients push, after a stream had to wait for it.
  virtual void OnRoom() {}
};

// Visits every stream once a second: otherwise an idle one would go unnoticed. Thread-safe.
class StreamWatch {
 public:
  static constexpr absl::Duration kEvery = absl::Seconds(1);

  template <class Stream>
  std::shared_ptr<Stream> Add(std::shared_ptr<Stream> stream) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    streams_.push_back(stream);
    return stream;
  }

  void OnTime(absl::Time now, bool crowded) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (now < next_) return;
      next_ = now + kEvery;
    }
    for (const auto& stream : Alive()) stream->OnTime(now, crowded);
  }

  void OnRoom() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (const auto& stream : Alive()) stream->OnRoom();
  }

 private:
  std::vector<std::shared_ptr<WatchedStream>> Alive() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<WatchedStream>> alive;
    std::erase_if(streams_, [&](const std::weak_ptr<WatchedStream>& stream) {
      std::shared_ptr<WatchedStream> locked = stream.lock();
      if (locked == nullptr) return true;
      alive.push_back(std::move(locked));
      return false;
    });
    return alive;
  }

  Mutex mutex_;
  std::vector<std::weak_ptr<WatchedStream>> streams_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace paceline::shard
