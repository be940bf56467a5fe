#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "absl/status/statusor.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"

// The coordinator's maps, as functions of what is known.
namespace paceline::coordinator {

// Version 1: every segment has a primary among `shards`, spread evenly (ring/planner.h), in epoch 1 and
// without replicas. kInvalidArgument: no shards.
absl::StatusOr<v1::Map> FirstMap(const std::map<uint32_t, ShardRecord>& shards, int ring_bits);

// The next version of `map`, in which `shard` is added or has the address and incarnation it has here. With
// `serve_again` its segments are given to this incarnation, in their next epoch: only right where an earlier
// incarnation of it cannot hold anything.
v1::Map NextMap(const v1::Map& map, const v1::ShardInfo& shard, bool serve_again);

// The next version of `map`, in which `shard`, in its newest incarnation there, is primary of `segment`, in
// the segment's next epoch. REQUIRES: both are in the map.
v1::Map MapWithMove(const v1::Map& map, uint32_t segment, uint32_t shard);

// Per shard, the segments whose primary is an earlier incarnation than the map's newest of that shard.
std::map<uint32_t, std::set<uint32_t>> LostSegments(const v1::Map& map);

}  // namespace paceline::coordinator
