#pragma once

#include "absl/status/statusor.h"
#include "libs/ring/segment_map.h"
#include "paceline/v1/types.pb.h"

namespace paceline::wire {

// Converts the map between its wire form and the form in use. Pure. FromProto is safe for hostile messages
// and returns the errors of SegmentMap::Create. Zones are only written: only the planner needs them.
v1::Map ToProto(const ring::SegmentMap& map);
// One segment's configuration. Checks nothing.
ring::SegmentConfig ConfigFromProto(const v1::SegmentConfig& config);
ring::Member MemberFromProto(const v1::Member& member);
v1::Member ToProto(const ring::Member& member);
absl::StatusOr<ring::SegmentMap> MapFromProto(const v1::Map& map);

}  // namespace paceline::wire
