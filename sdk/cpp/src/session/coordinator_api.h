#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::sdk {

// The requests of clients to the coordinator. A v1::NameRequest is answered with a v1::NameReply.
// clang-format off
#define PACELINE_CALLS_OF_CLIENTS(CALL) \
  CALL(OpenSession) CALL(JoinJob) CALL(KeepAlive) CALL(FinishWorker) CALL(CloseSession) \
  CALL(OpenTable) CALL(DropTable) CALL(ChangeRule) CALL(OpenWork) CALL(ReportWork)
// clang-format on

// The requests of a client to the coordinator. Each is tried once; the caller repeats it.
//
// Every callback is called once, on any thread, but never from within the call it was given to. Without an
// answer within `timeout` it gets DEADLINE_EXCEEDED; if the coordinator cannot be reached, UNAVAILABLE.
class CoordinatorApi {
 public:
  template <class Reply>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  virtual ~CoordinatorApi() = default;

#define CALL(Name)                                                            \
  virtual void Name(const v1::Name##Request& request, absl::Duration timeout, \
                    Callback<v1::Name##Reply> done) = 0;
  PACELINE_CALLS_OF_CLIENTS(CALL)
#undef CALL

  // A stream of maps. Destroying it ends it; maps that are on the way may still arrive.
  class Watch {
   public:
    virtual ~Watch() = default;
  };
  // `on_map` is called for every map newer than `known`, `on_end` once, as the last call. A map may only say
  // what has changed since `known`, or since the one before (wire::NextMap).
  virtual std::unique_ptr<Watch> WatchMap(uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map,
                                          absl::AnyInvocable<void(absl::Status)> on_end) = 0;
};

}  // namespace paceline::sdk
