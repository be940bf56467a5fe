#include "services/coordinator/metadata/placement/configs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/placement/config_wishes.h"

namespace paceline::coordinator {

absl::Status Configs::CheckRequest(const v1::ChangeConfigsRequest& request) const {
  const Facts& facts = context_.facts;
  if (request.cluster() != 0 && request.cluster() != facts.cluster()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cluster: ", request.cluster(), "; this is the coordinator of cluster ", facts.cluster()));
  }
  // A member may send a wish before its first beat to this coordinator.
  v1::Known known;
  known.set_map_version(request.map_version());
  known.set_incarnation(request.from().incarnation());
  if (request.cluster() != 0) ABSL_RETURN_IF_ERROR(membership_.CheckKnown(known, request.from()));
  if (!membership_.Current(request.from())) {
    return absl::FailedPreconditionError(
        absl::StrCat("from: incarnation ", request.from().incarnation(), " of shard ", request.from().shard(),
                     " is not the newest start of a shard of this cluster; this process must end"));
  }
  if (request.has_carried_by()) ABSL_RETURN_IF_ERROR(CheckCarried(request));
  if (facts.map() == nullptr) return absl::FailedPreconditionError("the cluster has no map yet");
  if (request.wishes_size() > static_cast<int>(facts.SegmentCount())) {
    return absl::InvalidArgumentError(absl::StrCat("wishes: ", request.wishes_size(), "; expected at most ",
                                                   facts.SegmentCount(), ", one a segment"));
  }
  for (const v1::ConfigWish& wish : request.wishes()) {
    if (wish.segment() < facts.SegmentCount()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("segment: ", wish.segment(), "; the ring has 0 to ", facts.SegmentCount() - 1));
  }
  return absl::OkStatus();
}

// For the wish of a primary that cannot reach this coordinator: it may only give up its place (SWAP) or keep
// it (KEEP).
absl::Status Configs::CheckCarried(const v1::ChangeConfigsRequest& request) const {
  if (!membership_.Current(request.carried_by())) {
    return absl::FailedPreconditionError(
        absl::StrCat("carried_by: incarnation ", request.carried_by().incarnation(), " of shard ",
                     request.carried_by().shard(), " is not the newest start of a shard of this cluster"));
  }
  for (const v1::ConfigWish& wish : request.wishes()) {
    if (wish.kind() == v1::ConfigWish::SWAP || wish.kind() == v1::ConfigWish::KEEP) continue;
    return absl::InvalidArgumentError(absl::StrCat("wishes: ", v1::ConfigWish::Kind_Name(wish.kind()),
                                                   " cannot be carried; expected SWAP or KEEP"));
  }
  return absl::OkStatus();
}

namespace {

// The shards that the wish says are silent, or fail; and the one whose wish another one carries.
std::vector<uint32_t> SilentBy(const v1::ConfigWish& wish, const v1::ChangeConfigsRequest& request,
                               const v1::SegmentConfig& config) {
  std::vector<uint32_t> shards;
  if (request.has_carried_by()) shards.push_back(request.from().shard());
  if (wish.kind() == v1::ConfigWish::PROMOTE) shards.push_back(config.primary().shard());
  if (wish.kind() == v1::ConfigWish::DROP) {
    for (const v1::Member& member : wish.members()) shards.push_back(member.shard());
  }
  return shards;
}

}  // namespace

absl::Status Configs::Grant(const v1::ConfigWish& wish, const v1::ChangeConfigsRequest& request,
                            v1::Map& map) {
  const v1::Member& from = request.from();
  v1::SegmentConfig& config = *map.mutable_segments(static_cast<int>(wish.segment()));
  // A map that is made from an older one would bear the number of one that shards know.
  ABSL_RETURN_IF_ERROR(membership_.CheckMayMakeMaps(SilentBy(wish, request, config)));
  if (wish.kind() == v1::ConfigWish::PROMOTE) {
    ABSL_RETURN_IF_ERROR(CheckPromote(config, wish, from));
    promotions_.Wish(wish.segment(), from);
    return absl::OkStatus();
  }
  ABSL_ASSIGN_OR_RETURN(config, Granted(config, wish, from, FactsOf(membership_)));
  return absl::OkStatus();
}

absl::StatusOr<v1::ChangeConfigsReply> Configs::Change(const v1::ChangeConfigsRequest& request) {
  ABSL_RETURN_IF_ERROR(CheckRequest(request));
  v1::Map map = *context_.facts.map();
  v1::ChangeConfigsReply reply;
  uint64_t hand_overs = 0;
  bool changed = false;
  for (const v1::ConfigWish& wish : request.wishes()) {
    const absl::Status granted = Grant(wish, request, map);
    reply.add_segments()->set_why_not(std::string(granted.message()));
    if (!granted.ok() || wish.kind() == v1::ConfigWish::PROMOTE) continue;
    changed = true;
    hand_overs += wish.kind() == v1::ConfigWish::SWAP ? 1 : 0;
  }
  if (changed) ABSL_RETURN_IF_ERROR(membership_.CommitMap(std::move(map)));
  hand_overs_ += hand_overs;
  if (hand_overs > 0) context_.probe.SegmentsHandedOver(hand_overs);
  for (int i = 0; i < request.wishes_size(); ++i) {
    v1::ChangeConfigsReply::Segment& segment = *reply.mutable_segments(i);
    segment.set_segment(request.wishes(i).segment());
    *segment.mutable_config() = context_.facts.map()->segments(static_cast<int>(segment.segment()));
  }
  reply.set_map_version(context_.facts.map_version());
  return reply;
}

}  // namespace paceline::coordinator
