#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "libs/rpc/event_loop.h"
#include "libs/world/port.h"

namespace paceline::rpc {

// Opens streams to shards over gRPC. Each has its own channel, so that none waits for another's reconnect
// back-off, and one read and one write outstanding. Handlers are called on the loop's thread; NextFrame also
// on threads that call Kick. Thread-safe.
class GrpcDialer : public world::Dialer {
 public:
  // `loop` counts the streams, and must run until each has reported OnBroken.
  explicit GrpcDialer(EventLoop& loop) : loop_(loop) {}

  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;

  // Streams that were dialed, ever.
  uint64_t streams() const { return streams_.load(std::memory_order_relaxed); }

 private:
  class Call;
  EventLoop& loop_;
  std::atomic<uint64_t> streams_{0};
};

}  // namespace paceline::rpc
