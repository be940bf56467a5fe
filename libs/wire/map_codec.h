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

// True if a receiver that has version `have` (0: none) can follow `map`: it is whole, or says what has
// changed since a version that is not newer than that.
bool Follows(const v1::Map& map, MapVersion have);
// The map that a receiver of `have` (null: none) has after `map`, which may be whole. As FromProto; also
// kInvalidArgument if `map` does not follow, or names what is not there.
absl::StatusOr<ring::SegmentMap> NextMap(const v1::Map& map, const ring::SegmentMap* have);

}  // namespace paceline::wire
