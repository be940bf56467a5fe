#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"

// The coordinator's maps, as functions of what is known.
namespace paceline::coordinator {

// Version 1: every segment has a primary among `shards` and min(replicas, shards - 1) replicas on others,
// spread evenly (ring/planner.h), in epoch 1: all are empty, and so in sync. REQUIRES: there are shards.
v1::Map FirstMap(const std::map<uint32_t, ShardRecord>& shards, int ring_bits, uint32_t replicas);

// The next version of `map`, in which `shard` is added or has the address and incarnation it has here. With
// `nothing_to_lose` segments without a member that lives begin empty at the newest start of their primary's
// shard, alone, in their next epoch: only right where earlier starts cannot hold anything that somebody was
// told of.
v1::Map NextMap(const v1::Map& map, const v1::ShardInfo& shard, bool nothing_to_lose);

// Grows whenever a segment begins empty.
uint64_t EmptiedSum(const v1::Map& map);

// The next version of `map`, in which `shard`, in its newest incarnation there, is primary of `segment`, in
// the segment's next epoch. REQUIRES: both are in the map.
v1::Map MapWithMove(const v1::Map& map, uint32_t segment, uint32_t shard);

// Where shards and the coordinator reach a shard.
const std::string& PeerAddressOf(const v1::ShardInfo& shard);

// The feature level of a map, or that a shard speaks. Those of level 1 did not say so.
uint32_t LevelOf(const v1::Map& map);
uint32_t LevelOf(const ShardRecord& shard);

// The newest start of each shard, by the map.
std::map<uint32_t, uint64_t> NewestStarts(const v1::Map& map);

// Per shard that is primary of them, the segments of whose members all have been started again since: what
// they held is gone.
std::map<uint32_t, std::set<uint32_t>> LostSegments(const v1::Map& map);

// The segments whose primary has been started again since and that have a replica that has not.
std::set<uint32_t> SegmentsToTakeOver(const v1::Map& map);

}  // namespace paceline::coordinator
