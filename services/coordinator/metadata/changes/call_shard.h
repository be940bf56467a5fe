#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "services/coordinator/metadata/changes/shard_caller.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {

// Makes `call` to the newest start of the shard when the visit ends. `handle` gets the answer in a visit of
// its own, and none once the coordinator is gone.
template <class Request, class Reply>
void CallShard(Context& context, const v1::ShardInfo& shard,
               void (ShardCaller::*call)(ShardId, const std::string&, Request,
                                         std::function<void(absl::StatusOr<Reply>)>),
               std::type_identity_t<Request> request,
               std::type_identity_t<std::function<void(absl::StatusOr<Reply>)>> handle) {
  context.outbox.Add([&caller = context.caller, call, id = ShardId(shard.shard()),
                      address = PeerAddressOf(shard), request = std::move(request),
                      done = AsVisit<absl::StatusOr<Reply>>(context, std::move(handle))]() mutable {
    (caller.*call)(id, address, std::move(request), std::move(done));
  });
}

}  // namespace paceline::coordinator
