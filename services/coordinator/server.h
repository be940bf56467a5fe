#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// The coordinator's process but for its flags: the core under one lock, its clock and timer, the calls it
// makes to shards, and its gRPC server with health and reflection. An adapter: what a request means is
// decided in CoordinatorCore.
class Server {
 public:
  // Listens on `address` (host:port, port 0 picks a free one). UNAVAILABLE naming the address if it is taken;
  // errors of CoordinatorCore::Create. `store` and `probe` must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Options options, Store& store, Probe& probe,
                                                       const std::string& address);
  // Says NOT_SERVING, answers what waits UNAVAILABLE, ends the server within a second and the threads.
  ~Server();

  // host:port that was bound.
  const std::string& address() const;
  Gauges gauges();
  // Another coordinator has started on the same store: this one should end.
  bool deposed();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::coordinator
