#include "libs/dial/shard_dialer.h"

#include <utility>

namespace paceline::dial {

ShardDialer::ShardDialer(rpc::EventLoop& grpc, Options options)
    : grpc_(grpc),
      loop_(std::make_shared<carrier::Loop>(std::move(options.loop))),
      direct_(options.direct ? std::make_unique<tcp::DirectDialer>(grpc_, loop_) : nullptr),
      near_(options.socket_dir.empty()
                ? nullptr
                : std::make_unique<shm::NearDialer>(
                      direct_ == nullptr ? static_cast<world::Dialer&>(grpc_) : *direct_,
                      std::move(options.socket_dir), std::move(options.say), *loop_, options.stuck_max)) {}

std::unique_ptr<world::StreamPort> ShardDialer::Dial(const std::string& address, world::StreamKind kind,
                                                     std::shared_ptr<world::StreamHandler> handler) {
  if (near_ != nullptr) return near_->Dial(address, kind, std::move(handler));
  if (direct_ != nullptr) return direct_->Dial(address, kind, std::move(handler));
  return grpc_.Dial(address, kind, std::move(handler));
}

}  // namespace paceline::dial
