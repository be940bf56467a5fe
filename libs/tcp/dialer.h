#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/carrier/avoided.h"
#include "libs/carrier/loop.h"
#include "libs/world/port.h"

namespace paceline::tcp {

// Dials shards over TCP without gRPC, at the ports at which they serve gRPC, and over gRPC those that do not
// take that. Each stream has a connection of its own. Each is tried anew, so one that breaks may come back
// the other way. Thread-safe.
class DirectDialer final : public world::Dialer {
 public:
  // `grpc`, which must outlive the dialer, dials the others. `loop` carries the streams.
  DirectDialer(world::Dialer& grpc, std::shared_ptr<carrier::Loop> loop);

  // A thread of its own resolves the address and connects, since both may block. It may outlive the dialer
  // and the loop, and then does nothing more.
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;

  // Streams that were dialed without gRPC, ever.
  uint64_t direct_streams() const { return direct_.load(std::memory_order_relaxed); }

 private:
  // What addresses have answered; streams may need it longer than the dialer lives. Thread-safe.
  class Answers {
   public:
    bool Avoids(const std::string& address) { return avoided_.Has(address); }
    void Hear(const std::string& address, const absl::Status& taken) ABSL_LOCKS_EXCLUDED(mutex_);

   private:
    static constexpr size_t kMost = 10'000;
    carrier::Avoided avoided_;
    Mutex mutex_;
    std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);  // that have taken a stream
  };

  // Null: it cannot be done here.
  std::unique_ptr<world::StreamPort> DialDirect(const std::string& address, world::StreamKind kind,
                                                const std::shared_ptr<world::StreamHandler>& handler);

  world::Dialer& grpc_;
  const std::shared_ptr<carrier::Loop> loop_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::atomic<uint64_t> direct_{0};
};

}  // namespace paceline::tcp
