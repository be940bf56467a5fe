#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/promotions.h"

namespace paceline::coordinator {

// Decides the wishes of members about the configurations of their segments (config_wishes.h).
//
// Each wish names the epoch that it would replace: it is a compare-and-set against the store. All wishes
// granted to one request become one version of the map, which is committed before anybody is told. A
// promotion is only begun here, and decided later (promotions.h).
class Configs {
 public:
  Configs(Context& context, Membership& membership, Promotions& promotions)
      : context_(context), membership_(membership), promotions_(promotions) {}

  // UNAVAILABLE: the store failed; as far as is known nothing of the request was granted: ask again.
  // kFailedPrecondition: not from the newest start of a shard of this cluster. kInvalidArgument: more wishes
  // than segments, or a wish for a segment that does not exist.
  absl::StatusOr<v1::ChangeConfigsReply> Change(const v1::ChangeConfigsRequest& request);

  // Planned hand-overs of segments since this coordinator started.
  uint64_t hand_overs() const { return hand_overs_; }

 private:
  absl::Status CheckRequest(const v1::ChangeConfigsRequest& request) const;
  absl::Status CheckCarried(const v1::ChangeConfigsRequest& request) const;
  // Applies the wish to `map`, or returns why it is not granted.
  absl::Status Grant(const v1::ConfigWish& wish, const v1::ChangeConfigsRequest& request, v1::Map& map);

  Context& context_;
  Membership& membership_;
  Promotions& promotions_;
  uint64_t hand_overs_ = 0;
};

}  // namespace paceline::coordinator
