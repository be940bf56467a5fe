#pragma once

#include <memory>
#include <string>
#include <thread>

#include "libs/dial/shard_dialer.h"
#include "libs/rpc/coordinators.h"
#include "libs/rpc/event_loop.h"
#include "libs/world/clock.h"
#include "libs/world/task_thread.h"
#include "services/shard/replication/peers.h"

namespace paceline::shard {

// Other shards, and the coordinator that leads. Calls go over gRPC, streams the best way that the other shard
// takes (ShardDialer). One thread drives streams over gRPC, one carries the others, and one makes the calls.
// Must outlive the shard, whose streams it ends with.
class GrpcPeers final : public Peers {
 public:
  // How streams to other shards may go, besides over gRPC.
  struct Ways {
    std::string socket_dir = {};  // shared memory; empty: no
    bool direct = true;           // TCP without gRPC
  };
  // `coordinators`: host:port, several separated by commas.
  GrpcPeers(const std::string& coordinators, const world::Clock& clock, const Ways& ways);
  ~GrpcPeers() override;
  // Ends calls and streams, waits for that, and makes no more callbacks. REQUIRES: the shard is stopped,
  // and so has let go of its streams.
  void Stop();

  world::Dialer& dialer() override { return dialer_; }
  void ChangeConfigs(v1::ChangeConfigsRequest request,
                     std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) override;

 private:
  absl::StatusOr<v1::ChangeConfigsReply> Ask(const v1::ChangeConfigsRequest& request);

  const world::Clock& clock_;
  rpc::Coordinators coordinators_;
  rpc::EventLoop loop_;
  dial::ShardDialer dialer_;
  std::thread streams_;
  world::TaskThread caller_;
};

}  // namespace paceline::shard
