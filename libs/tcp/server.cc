#include "libs/tcp/server.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "libs/carrier/stream.h"
#include "libs/tcp/connect.h"
#include "libs/tcp/socket_pipe.h"
#include "libs/world/real_clock.h"

namespace paceline::tcp {
DirectServer::DirectServer(Options options, NewHandler handler)
    : options_(std::move(options)), handler_(std::move(handler)) {
  for (int i = 0; i < options_.threads; ++i) {
    loops_.push_back(std::make_unique<carrier::Loop>(carrier::Loop::Options{.spin_max = options_.spin_max}));
  }
}

DirectServer::~DirectServer() {
  Stop(absl::ZeroDuration());
}

void DirectServer::Stop(absl::Duration grace) {
  const absl::Time until = world::MonotonicNow() + grace;
  for (const auto& loop : loops_) loop->AwaitNone(until - world::MonotonicNow());
  for (const auto& loop : loops_) loop->Stop(absl::CancelledError("the shard ends"));
}

bool DirectServer::running() const {
  return std::ranges::all_of(loops_, [](const auto& loop) { return loop->running(); });
}

void DirectServer::Take(carrier::Descriptor connection, const Preamble& preamble) {
  const std::optional<world::StreamKind> kind = KindOf(preamble);
  if (!kind.has_value() || options_.counts->open >= options_.streams_max) return;
  const std::shared_ptr<world::AcceptedStream> handler = handler_(*kind);
  if (handler == nullptr) return;
  SetUp(connection.get());
  ++options_.counts->open;
  ++options_.counts->taken;
  const std::shared_ptr<void> held(nullptr, [counts = options_.counts](void*) { --counts->open; });
  carrier::Loop& loop = *loops_[next_loop_++ % loops_.size()];
  auto stream = std::make_shared<carrier::Stream>(
      loop.waker(),
      carrier::Stream::Parts{.side = carrier::Side::kShard,
                             .peer = options_.peers,
                             .pipe = std::make_unique<SocketPipe>(
                                 carrier::Side::kShard, std::move(connection), options_.frame_bytes_max),
                             .handler = handler,
                             .held = held});
  handler->Attach(carrier::Stream::PortAtShard(stream));
  (void)loop.Add(std::move(stream));
}

}  // namespace paceline::tcp
