#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::sdk {

// The requests of a client to the coordinator. Each is tried once; the caller repeats it.
//
// Every callback is called once, on any thread, but never from within the call it was given to. Without an
// answer within `timeout` it gets DEADLINE_EXCEEDED; if the coordinator cannot be reached, UNAVAILABLE.
class CoordinatorApi {
 public:
  template <class Reply>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  virtual ~CoordinatorApi() = default;

  virtual void OpenSession(const v1::OpenSessionRequest& request, absl::Duration timeout,
                           Callback<v1::OpenSessionReply> done) = 0;
  virtual void JoinJob(const v1::JoinJobRequest& request, absl::Duration timeout,
                       Callback<v1::JoinJobReply> done) = 0;
  virtual void KeepAlive(const v1::KeepAliveRequest& request, absl::Duration timeout,
                         Callback<v1::KeepAliveReply> done) = 0;
  virtual void FinishWorker(const v1::FinishWorkerRequest& request, absl::Duration timeout,
                            Callback<v1::FinishWorkerReply> done) = 0;
  virtual void CloseSession(const v1::CloseSessionRequest& request, absl::Duration timeout,
                            Callback<v1::CloseSessionReply> done) = 0;
  virtual void OpenTable(const v1::OpenTableRequest& request, absl::Duration timeout,
                         Callback<v1::OpenTableReply> done) = 0;
  virtual void DropTable(const v1::DropTableRequest& request, absl::Duration timeout,
                         Callback<v1::DropTableReply> done) = 0;
  virtual void ChangeRule(const v1::ChangeRuleRequest& request, absl::Duration timeout,
                          Callback<v1::ChangeRuleReply> done) = 0;

  // A stream of maps. Destroying it ends it; maps that are on the way may still arrive.
  class Watch {
   public:
    virtual ~Watch() = default;
  };
  // `on_map` is called for every map newer than `known`, `on_end` once, as the last call.
  virtual std::unique_ptr<Watch> WatchMap(uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map,
                                          absl::AnyInvocable<void(absl::Status)> on_end) = 0;
};

}  // namespace paceline::sdk
