#include "services/coordinator/metadata/placement/map_plan.h"

#include <algorithm>

#include "libs/ring/planner.h"

namespace paceline::coordinator {
namespace {

using Starts = std::map<uint32_t, uint64_t>;

bool Lives(const Starts& newest, const v1::Member& member) {
  const auto it = newest.find(member.shard());
  return it != newest.end() && it->second == member.incarnation();
}

bool HasLiveReplica(const Starts& newest, const v1::SegmentConfig& segment) {
  return std::ranges::any_of(segment.replicas(), [&](const auto& replica) { return Lives(newest, replica); });
}

// True if the newest start of some member's shard has a disk.
bool MayHaveDisk(const std::map<uint32_t, ShardRecord>& shards, const v1::SegmentConfig& config) {
  const auto has = [&shards](const v1::Member& member) {
    const auto shard = shards.find(member.shard());
    return shard != shards.end() && shard->second.keeps_data();
  };
  return has(config.primary()) || std::ranges::any_of(config.replicas(), has);
}

}  // namespace

v1::Map FirstMap(const std::map<uint32_t, ShardRecord>& shards, int ring_bits, uint32_t replicas) {
  ring::PlanInput input{.segments = std::vector<ring::SegmentState>(size_t{1} << ring_bits),
                        .shards = {},
                        .replicas = replicas};
  v1::Map map;
  map.set_version(1);
  map.set_ring_bits(static_cast<uint32_t>(ring_bits));
  for (const auto& [id, shard] : shards) {
    input.shards.push_back({.shard = ShardId(id), .zone = shard.info().zone()});
    *map.add_shards() = shard.info();
  }
  const auto set = [&shards](ShardId shard, v1::Member& member) {
    member.set_shard(shard.v);
    member.set_incarnation(shards.at(shard.v).info().incarnation());
  };
  for (const ring::Owners& owners : ring::PlanRound(input).wanted) {
    v1::SegmentConfig& segment = *map.add_segments();
    segment.set_epoch(1);
    set(owners.primary, *segment.mutable_primary());
    for (const ShardId replica : owners.replicas) set(replica, *segment.add_replicas());
  }
  return map;
}

v1::Map NextMap(const v1::Map& map, const v1::ShardInfo& shard, bool nothing_to_lose, uint64_t change_floor) {
  v1::Map next = map;
  next.set_version(map.version() + 1);
  v1::ShardInfo* place = nullptr;
  for (v1::ShardInfo& known : *next.mutable_shards()) {
    if (known.shard() == shard.shard()) place = &known;
  }
  if (place == nullptr) place = next.add_shards();
  *place = shard;
  for (v1::SegmentConfig& segment : *next.mutable_segments()) segment.clear_lost();
  if (!nothing_to_lose) return next;
  const Starts newest = NewestStarts(next);
  for (v1::SegmentConfig& segment : *next.mutable_segments()) {
    if (Lives(newest, segment.primary()) || HasLiveReplica(newest, segment)) continue;
    segment.mutable_primary()->set_incarnation(newest.at(segment.primary().shard()));
    segment.clear_replicas();
    segment.set_epoch(segment.epoch() + 1);
    segment.set_emptied_in(segment.epoch());
    segment.set_change_floor(change_floor);
  }
  return next;
}

uint64_t EmptiedSum(const v1::Map& map) {
  uint64_t sum = 0;
  for (const v1::SegmentConfig& segment : map.segments()) sum += segment.emptied_in();
  return sum;
}

const std::string& PeerAddressOf(const v1::ShardInfo& shard) {
  return shard.peer_address().empty() ? shard.address() : shard.peer_address();
}

uint32_t LevelOf(const v1::Map& map) {
  return std::max<uint32_t>(map.feature_level(), 1);
}

uint32_t LevelOf(const ShardRecord& shard) {
  return std::max<uint32_t>(shard.feature_level(), 1);
}

std::map<uint32_t, uint64_t> NewestStarts(const v1::Map& map) {
  Starts newest;
  for (const v1::ShardInfo& shard : map.shards()) newest[shard.shard()] = shard.incarnation();
  return newest;
}

std::map<uint32_t, std::set<uint32_t>> LostSegments(const v1::Map& map) {
  const Starts newest = NewestStarts(map);
  std::map<uint32_t, std::set<uint32_t>> lost;
  for (int s = 0; s < map.segments_size(); ++s) {
    const v1::SegmentConfig& segment = map.segments(s);
    if (Lives(newest, segment.primary()) || HasLiveReplica(newest, segment)) continue;
    lost[segment.primary().shard()].insert(static_cast<uint32_t>(s));
  }
  return lost;
}

void MarkLost(const std::map<uint32_t, ShardRecord>& shards, v1::Map& map) {
  const Starts newest = NewestStarts(map);
  for (v1::SegmentConfig& segment : *map.mutable_segments()) {
    const bool over = !Lives(newest, segment.primary()) && !HasLiveReplica(newest, segment);
    segment.set_lost(over && (segment.lost() || !MayHaveDisk(shards, segment)));
  }
}

std::set<uint32_t> SegmentsOf(const v1::Map& map, uint32_t shard) {
  const auto is = [shard](const v1::Member& member) { return member.shard() == shard; };
  std::set<uint32_t> segments;
  for (int s = 0; s < map.segments_size(); ++s) {
    const v1::SegmentConfig& config = map.segments(s);
    if (is(config.primary()) || std::ranges::any_of(config.replicas(), is))
      segments.insert(static_cast<uint32_t>(s));
  }
  return segments;
}

std::set<uint32_t> SegmentsToTakeOver(const v1::Map& map) {
  const Starts newest = NewestStarts(map);
  std::set<uint32_t> segments;
  for (int s = 0; s < map.segments_size(); ++s) {
    const v1::SegmentConfig& segment = map.segments(s);
    if (Lives(newest, segment.primary()) || !HasLiveReplica(newest, segment)) continue;
    segments.insert(static_cast<uint32_t>(s));
  }
  return segments;
}

}  // namespace paceline::coordinator
