#pragma once

#include <memory>
#include <string>
#include <thread>

#include "libs/rpc/coordinators.h"
#include "libs/rpc/event_loop.h"
#include "libs/rpc/grpc_dialer.h"
#include "libs/shm/near_dialer.h"
#include "libs/world/clock.h"
#include "libs/world/task_thread.h"
#include "services/shard/replication/peers.h"

namespace paceline::shard {

// Other shards, and the coordinator that leads, over gRPC; shards whose sockets are in a folder that this one
// has too, over shared memory. One thread drives the streams, one makes the calls, and with a folder one
// carries frames over shared memory. Must outlive the shard, whose streams it ends with.
class GrpcPeers final : public Peers {
 public:
  // `coordinators`: host:port, several separated by commas. `socket_dir`: the folder; empty: none.
  GrpcPeers(const std::string& coordinators, const world::Clock& clock, const std::string& socket_dir = "");
  ~GrpcPeers() override;
  // Ends calls and streams, waits for that, and makes no more callbacks. REQUIRES: the shard is stopped,
  // and so has let go of its streams.
  void Stop();

  world::Dialer& dialer() override;
  void ChangeConfigs(v1::ChangeConfigsRequest request,
                     std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) override;

 private:
  absl::StatusOr<v1::ChangeConfigsReply> Ask(const v1::ChangeConfigsRequest& request);

  const world::Clock& clock_;
  rpc::Coordinators coordinators_;
  rpc::EventLoop loop_;
  rpc::GrpcDialer dialer_{loop_};
  const std::unique_ptr<shm::NearDialer> near_;  // null: without a folder
  std::thread streams_;
  world::TaskThread caller_;
};

}  // namespace paceline::shard
