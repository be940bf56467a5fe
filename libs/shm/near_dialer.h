#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/shm/loop.h"
#include "libs/world/port.h"

namespace paceline::shm {

// Dials shards over shared memory where their socket is in a folder, and by another dialer where it is not:
// for a client, or for a shard that dials others. Each stream is tried anew, so one that breaks may come back
// the other way. Thread-safe.
class NearDialer final : public world::Dialer {
 public:
  using Say = std::function<void(const std::string& text)>;

  // A shard that refuses, or ends before it has answered, is dialed the other way for this long.
  static constexpr absl::Duration kAvoid = absl::Seconds(10);

  // `far`, which must outlive it, dials the others. `say` hears once of each shard that is not near, and why.
  // `loop`: of the thread that carries the streams. `stuck_max`: DialOptions.
  NearDialer(world::Dialer& far, std::string folder, Say say, Loop::Options loop,
             absl::Duration stuck_max = absl::InfiniteDuration());

  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;
  // Carries frames over shared memory on this thread: Loop::CarryUntil. Handlers run on it.
  void CarryUntil(absl::FunctionRef<bool()> done) { loop_.CarryUntil(done); }

  // Ends its streams over shared memory with `why`, and its thread: Loop::Stop.
  void Stop(const absl::Status& why) { loop_.Stop(why); }

  // Whether any stream goes over shared memory now.
  bool IsNear() const { return loop_.streams() > 0; }
  uint64_t near_streams() const { return near_.load(std::memory_order_relaxed); }
  uint64_t far_streams() const { return far_streams_.load(std::memory_order_relaxed); }

 private:
  // What callbacks of streams may need longer than the dialer lives.
  class Avoided {
   public:
    bool Has(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);
    void Add(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);

   private:
    Mutex mutex_;
    std::map<std::string, absl::Time> until_ ABSL_GUARDED_BY(mutex_);
  };
  class Notices;

  absl::StatusOr<std::unique_ptr<world::StreamPort>> DialNear(
      const std::string& address, world::StreamKind kind,
      const std::shared_ptr<world::StreamHandler>& handler);

  world::Dialer& far_;
  const std::string folder_;
  const absl::Duration stuck_max_;
  const std::shared_ptr<Notices> notices_;
  const std::shared_ptr<Avoided> avoided_ = std::make_shared<Avoided>();
  std::atomic<uint64_t> near_{0};
  std::atomic<uint64_t> far_streams_{0};
  Loop loop_;
};

}  // namespace paceline::shm
