#pragma once

#include <memory>
#include <string>

#include "libs/rpc/event_loop.h"
#include "libs/world/port.h"

namespace paceline::rpc {

// Opens streams to shards over gRPC: a channel of its own for each, so that none waits for another's
// reconnection, one read and one write outstanding. Handlers are called on the loop's thread, and NextFrame
// also on the threads that kick. Thread-safe.
class GrpcDialer : public world::Dialer {
 public:
  // `loop` must run until every stream was heard to be broken; it counts them.
  explicit GrpcDialer(EventLoop& loop) : loop_(loop) {}

  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;

 private:
  class Call;
  EventLoop& loop_;
};

}  // namespace paceline::rpc
