#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/carrier/loop.h"
#include "libs/rpc/event_loop.h"
#include "libs/rpc/grpc_dialer.h"
#include "libs/shm/near_dialer.h"
#include "libs/tcp/dialer.h"
#include "libs/world/port.h"

namespace paceline::dial {

// Opens streams to shards, for a client or for another shard, each the best way that the shard takes: over
// shared memory where its socket is in a folder, else over TCP without gRPC, else over gRPC. A stream stays
// with what carries it until it breaks; the next one is tried anew. Thread-safe.
class ShardDialer final : public world::Dialer {
 public:
  struct Options {
    std::string socket_dir = {};  // empty: no shared memory
    bool direct = true;           // TCP without gRPC
    carrier::Loop::Options loop = {};
    // Over shared memory a shard that makes no room for so long is given up.
    absl::Duration stuck_max = absl::InfiniteDuration();
    // Hears once of each shard that is not near although there is a folder, and why.
    std::function<void(const std::string& text)> say = nullptr;
  };
  // `grpc` drives the streams over gRPC; it must run until each has reported OnBroken.
  ShardDialer(rpc::EventLoop& grpc, Options options);

  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override;

  // Whether any stream is carried without gRPC now.
  bool Carries() const { return loop_->streams() > 0; }
  // Carries frames on this thread: Loop::CarryUntil. Handlers run on it.
  void CarryUntil(absl::FunctionRef<bool()> done) { loop_->CarryUntil(done); }
  // Ends the streams that gRPC does not carry with `why`, and their thread: Loop::Stop.
  void Stop(const absl::Status& why) { loop_->Stop(why); }

  // Streams that were dialed, ever, by what carries them.
  uint64_t near_streams() const { return near_ == nullptr ? 0 : near_->near_streams(); }
  uint64_t direct_streams() const { return direct_ == nullptr ? 0 : direct_->direct_streams(); }
  uint64_t grpc_streams() const { return grpc_.streams(); }

 private:
  rpc::GrpcDialer grpc_;
  const std::shared_ptr<carrier::Loop> loop_;
  const std::unique_ptr<tcp::DirectDialer> direct_;  // null: off
  const std::unique_ptr<shm::NearDialer> near_;      // null: without a folder
};

}  // namespace paceline::dial
