#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"

// Computes the coordinator's maps. Pure functions.
namespace paceline::coordinator {

// Version 1: every segment has a primary among `shards` and min(replicas, shards - 1) replicas on others,
// spread evenly (ring/planner.h), in epoch 1: all are empty, and so in sync. REQUIRES: there are shards.
v1::Map FirstMap(const std::map<uint32_t, ShardRecord>& shards, int ring_bits, uint32_t replicas);

// The next version of `map`, in which `shard` is added, or has this address and incarnation.
// The new start may have another folder, so no segment is marked as lost. `nothing_to_lose`: segments without
// a living member begin empty in their next epoch, with the newest start of their primary's shard as the only
// member. That is right only if earlier starts cannot hold anything that anybody was told of.
v1::Map NextMap(const v1::Map& map, const v1::ShardInfo& shard, bool nothing_to_lose, uint64_t change_floor);

// A number that grows whenever a segment begins empty.
uint64_t EmptiedSum(const v1::Map& map);

// The address at which other shards and the coordinator reach a shard.
const std::string& PeerAddressOf(const v1::ShardInfo& shard);

// The feature level of a map, or of a shard. Those of level 1 do not state it.
uint32_t LevelOf(const v1::Map& map);
uint32_t LevelOf(const ShardRecord& shard);

// The incarnation of each shard's newest start, by the map.
std::map<uint32_t, uint64_t> NewestStarts(const v1::Map& map);

// Per shard that is their primary, the segments whose members all have been started again since: their data
// in memory is gone.
std::map<uint32_t, std::set<uint32_t>> LostSegments(const v1::Map& map);

// Marks as lost the segments that LostSegments names and of which no disk can have anything: none of their
// members' newest starts has one. What is marked keeps its mark; a segment that has a member again loses it.
void MarkLost(const std::map<uint32_t, ShardRecord>& shards, v1::Map& map);

// The segments of which any start of the shard is a member.
std::set<uint32_t> SegmentsOf(const v1::Map& map, uint32_t shard);

// The segments whose primary has been started again, and that have a replica that has not.
std::set<uint32_t> SegmentsToTakeOver(const v1::Map& map);

}  // namespace paceline::coordinator
