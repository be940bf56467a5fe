#pragma once

#include <memory>
#include <string>

#include "libs/rpc/coordinators.h"
#include "libs/rpc/event_loop.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "sdk/cpp/src/session/coordinator_api.h"

namespace paceline::sdk {

// Sends requests over gRPC to the leading coordinator among those that are listed. A try that meets another
// one, or none, is UNAVAILABLE, and the next try goes elsewhere. Answers come on the loop's thread.
// Thread-safe.
class GrpcCoordinatorApi : public CoordinatorApi {
 public:
  // `loop` must run until every request is answered; it counts them. `addresses`: host:port, several
  // separated by commas.
  GrpcCoordinatorApi(rpc::EventLoop& loop, const std::string& addresses);

#define CALL(Name)                                                                                    \
  void Name(const v1::Name##Request& request, absl::Duration timeout, Callback<v1::Name##Reply> done) \
      override;
  PACELINE_CALLS_OF_CLIENTS(CALL)
#undef CALL
  std::unique_ptr<Watch> WatchMap(uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map,
                                  absl::AnyInvocable<void(absl::Status)> on_end) override;

 private:
  template <class Reply>
  class Question;
  class MapStream;
  class MapWatch;

  // Sends a request with one of the stub's PrepareAsync… functions.
  template <class Reply, class Request, class Prepare>
  void Ask(Prepare prepare, const Request& request, absl::Duration timeout, Callback<Reply> done);

  rpc::EventLoop& loop_;
  // Shared with streams, which may outlive this.
  const std::shared_ptr<rpc::Coordinators> coordinators_;
};

}  // namespace paceline::sdk
