#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/world/port.h"
#include "services/shard/context.h"
#include "services/shard/streams/stream_watch.h"

namespace paceline::shard {

// What all streams that a shard accepts have in common: the port that their carrier attaches, and the time
// within which their peer must say hello.
class ServedStream : public world::AcceptedStream, public WatchedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort> port) override ABSL_LOCKS_EXCLUDED(mutex_);
  // The peer sends no more: there may be an end to be sent.
  void OnFinished() override ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the stream if its peer has said no hello, or does not read, for too long.
  void OnTime(absl::Time now, bool crowded) override ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  // `kind`: push, pull, replicate, subscribe, for the metrics.
  ServedStream(Context& context, std::string kind);
  ~ServedStream() override;

  // What the peer has not read for too long takes memory.
  virtual bool Unread(absl::Time /*now*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return false; }
  // nullptr: not attached yet, or broken.
  std::shared_ptr<world::StreamPort> port() ABSL_LOCKS_EXCLUDED(mutex_);
  // There may be a frame to be sent: now, or when others have come.
  void Kick() ABSL_LOCKS_EXCLUDED(mutex_);
  void KickSoon() ABSL_LOCKS_EXCLUDED(mutex_);

  Context& context_;
  std::atomic<bool> greeted_{false};  // the peer has said hello
  std::atomic<bool> ended_{false};    // broken, or being closed; written under mutex_, like what follows
  Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more

 private:
  const std::string kind_;
  const absl::Time opened_;
};

}  // namespace paceline::shard
