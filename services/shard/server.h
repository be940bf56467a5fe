#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/rpc/listener.h"
#include "libs/rpc/server_streams.h"
#include "libs/tcp/server.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/shard.grpc.pb.h"
#include "services/shard/shard.h"

namespace paceline::shard {

struct Listeners {
  std::string clients = "127.0.0.1:0";  // host:port; port 0 picks a free one
  std::string peers = "127.0.0.1:0";    // as `clients`
  int threads = 1;                      // that serve streams of clients, and as many those of other shards
  bool direct_streams = true;           // at both addresses streams may come without gRPC, too
  bool reflection = false;              // tells anybody which methods there are
};

// The shard's gRPC servers: one for clients, with the data plane's streams, and one for other shards and the
// coordinator, with Replicate and ShardControl, so that a firewall can tell them apart. Both have health.
// While the cluster has shards of level 1 (Shard::PeersAmongClients) the first one does the second one's
// work, too. Adapters only; Shard decides what a request means.
class Server {
 public:
  // UNAVAILABLE naming the address if one is taken. `shard` must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Shard& shard, const Listeners& listeners);
  // Refuses new work, answers parked reads, ends all streams within a second, joins the threads.
  ~Server();

  // Health says of the service `readiness` that it serves; at first it does not. Health of the whole server
  // says only that it answers.
  void SetReady();

  // host:port that was bound, for clients and for peers.
  const std::string& address() const { return clients_.listener->address(); }
  const std::string& peer_address() const { return peers_.listener->address(); }
  // The connections to both addresses. Health reports the service `connections` as serving while the server
  // accepts them.
  std::shared_ptr<const rpc::ConnectionCounts> connections() const { return connections_; }
  // The streams that come without gRPC, to both addresses.
  std::shared_ptr<const tcp::DirectServer::Counts> direct_streams() const { return direct_streams_; }

 private:
  class Control;
  class Data;
  class Replication;

  // One address that is listened on.
  struct Side {
    std::unique_ptr<tcp::DirectServer> direct;
    std::unique_ptr<Control> control;
    std::unique_ptr<Replication> replication;
    std::unique_ptr<rpc::ServerStreams> streams;
    std::unique_ptr<grpc::Server> server;
    std::unique_ptr<rpc::Listener> listener;
  };

  explicit Server(Shard& shard);
  // Serves shards and the coordinator; `at_peers`: at the address for peers.
  void ServePeers(grpc::ServerBuilder& builder, Side& side, bool at_peers);
  absl::Status Listen(const std::string& address, const char* flag, Side& side);
  absl::Status ServeDirect(int threads, bool at_peers, Side& side);
  absl::Status Build(grpc::ServerBuilder& builder, int message_bytes_max, Side& side);
  void OnFull(bool full);

  Shard& shard_;
  const std::shared_ptr<rpc::ConnectionCounts> connections_ = std::make_shared<rpc::ConnectionCounts>();
  const std::shared_ptr<tcp::DirectServer::Counts> direct_streams_ =
      std::make_shared<tcp::DirectServer::Counts>();
  std::unique_ptr<Data> data_;
  Side clients_;
  Side peers_;
  Notification stop_;
  std::thread timer_;
};

}  // namespace paceline::shard
