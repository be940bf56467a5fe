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
#include "libs/carrier/avoided.h"
#include "libs/carrier/loop.h"
#include "libs/world/port.h"

namespace paceline::shm {

// Dials shards over shared memory where their socket is in a folder, and by another dialer where it is not:
// for a client, or for a shard that dials others. Each stream is tried anew, so one that breaks may come back
// the other way. Thread-safe.
class NearDialer final : public world::Dialer {
 public:
  using Say = std::function<void(const std::string& text)>;

  // `far`, which must outlive it, dials the others. `say` hears once of each shard that is not near, and why.
  // `loop`, which must outlive it too, carries the streams. `stuck_max`: DialOptions.
  NearDialer(world::Dialer& far, std::string folder, Say say, carrier::Loop& loop,
             absl::Duration stuck_max = absl::InfiniteDuration());

  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;
  // Streams that were dialed over shared memory, ever.
  uint64_t near_streams() const { return near_.load(std::memory_order_relaxed); }

 private:
  class Notices;

  absl::StatusOr<std::unique_ptr<world::StreamPort>> DialNear(
      const std::string& address, world::StreamKind kind,
      const std::shared_ptr<world::StreamHandler>& handler);

  world::Dialer& far_;
  carrier::Loop& loop_;
  const std::string folder_;
  const absl::Duration stuck_max_;
  const std::shared_ptr<Notices> notices_;
  const std::shared_ptr<carrier::Avoided> avoided_ = std::make_shared<carrier::Avoided>();
  std::atomic<uint64_t> near_{0};
};

}  // namespace paceline::shm
