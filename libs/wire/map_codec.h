#pragma once

#include "absl/status/statusor.h"
#include "libs/ring/segment_map.h"
#include "paceline/v1/types.pb.h"

namespace paceline::wire {

// The map as it travels and as it is used. Pure; FromProto takes hostile messages and returns what
// SegmentMap::Create says of them. Zones do not travel back: only the planner needs them.
v1::Map ToProto(const ring::SegmentMap& map);
// Of one segment. Nothing is checked.
ring::SegmentConfig ConfigFromProto(const v1::SegmentConfig& config);
ring::Member MemberFromProto(const v1::Member& member);
v1::Member ToProto(const ring::Member& member);
absl::StatusOr<ring::SegmentMap> MapFromProto(const v1::Map& map);

}  // namespace paceline::wire
