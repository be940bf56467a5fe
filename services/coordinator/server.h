#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/metrics/exposer.h"
#include "libs/rpc/listener.h"
#include "libs/world/real_clock.h"
#include "libs/world/system_random.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/kubernetes/stateful_set.h"
#include "services/coordinator/metadata/facts/options.h"
#include "services/coordinator/reporting_probe.h"
#include "services/coordinator/service.h"
#include "services/coordinator/shard_stubs.h"
#include "services/coordinator/snapshot_desk.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

struct ServerOptions {
  Options coordinator;
  std::string listen = "127.0.0.1:0";          // HOST:PORT; port 0 picks a free one
  std::string metrics_listen;                  // HOST:PORT of the /metrics page; empty: none
  std::string metrics_cluster;                 // label paceline_cluster of all metrics; empty: none
  std::shared_ptr<snapshot::Files> snapshots;  // where job snapshots are kept; null: there are none
  // The StatefulSet of which the shards are pods, NAMESPACE/NAME; empty: none is asked for how many are
  // wanted.
  std::string statefulset;
  std::string account_dir;  // of the service account by which it is asked
  std::string advertise;    // HOST:PORT for clients; empty: the address as bound
  bool reflection = false;  // tells any client which methods exist
};

// A coordinator's server: its core, its gRPC services with health, its metrics page.
class Server {
 public:
  // Becomes the leader of `store`, or stands by if the store is shared (Options::leader_lease), and serves.
  // UNAVAILABLE names an address that is taken; otherwise fails as Candidate::Start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<Store> store);

  // Ends in order: health reports NOT_SERVING, waiting requests are answered UNAVAILABLE, calls get a second
  // to end, calls to shards are cancelled, the store is closed.
  ~Server();

  // HOST:PORT as bound.
  const std::string& address() const { return listener_->address(); }
  // True once another coordinator has started on a store that was to be this one's alone: this one can change
  // nothing any more.
  bool deposed() {
    return !shared_ && host_.Visit([](Candidate& candidate) { return candidate.leader()->deposed(); });
  }
  // Empty: there is no metrics page.
  std::string metrics_address() const { return page_ == nullptr ? "" : page_->address(); }

 private:
  Server(std::unique_ptr<Store> store, bool shared) : store_(std::move(store)), shared_(shared) {}
  absl::Status Listen(const std::string& address, bool reflection);
  absl::Status ShowMetrics(const ServerOptions& options);

  // In the order of use; destroyed in reverse order.
  const world::RealClock clock_;
  world::SystemRandom random_;
  ReportingProbe probe_;
  std::unique_ptr<Store> store_;
  const bool shared_;
  CoreHost host_{clock_};
  ShardStubs stubs_{host_};
  std::unique_ptr<StatefulSet> statefulset_;  // null: nobody says how many shards are wanted
  std::unique_ptr<SnapshotDesk> snapshots_;   // null: there are no snapshots
  CoordinatorService service_{host_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<rpc::Listener> listener_;
  std::unique_ptr<metrics::Exposer> page_;
};

}  // namespace paceline::coordinator
