#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/rpc/server_streams.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/shard.grpc.pb.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// The shard's gRPC server: the data plane's streams, ShardControl, health and reflection. Adapters only; what
// a request means is decided in Shard.
class Server {
 public:
  // Listens on `address` (host:port, port 0 picks a free one). UNAVAILABLE naming the address if it is taken.
  // `threads` serve streams. `shard` must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Shard& shard, const std::string& address, int threads);
  // Refuses new work, answers what is parked, ends all streams within a second, joins the threads.
  ~Server();

  // Health says of the service `readiness` that it serves; at first it does not. Health of the whole server
  // says only that it answers.
  void SetReady();

  // host:port that was bound.
  const std::string& address() const { return address_; }

 private:
  class Control;
  class Data;
  class Replication;

  explicit Server(Shard& shard);

  Shard& shard_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Data> data_;
  std::unique_ptr<Replication> replication_;
  std::unique_ptr<rpc::ServerStreams> streams_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  Notification stop_;
  std::thread timer_;
};

}  // namespace paceline::shard
