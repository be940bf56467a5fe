#pragma once

#include "absl/status/statusor.h"
#include "paceline/v1/types.pb.h"

namespace paceline::wire {

// A whole map in its compact form, a third of the bytes: members, of which there are few, are written once,
// and segments name them by their place. Pure.
v1::CompactMap Compact(const v1::Map& map);

// The map that it is the compact form of, segment by segment the same. Safe for hostile messages:
// kInvalidArgument says what does not fit together; whether the map is valid is for MapFromProto to say.
absl::StatusOr<v1::Map> Expand(const v1::CompactMap& compact);

}  // namespace paceline::wire
