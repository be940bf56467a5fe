#include "services/coordinator/metadata/map_plan.h"

#include "libs/base/status.h"
#include "libs/ring/planner.h"

namespace paceline::coordinator {

absl::StatusOr<v1::Map> FirstMap(const std::map<uint32_t, ShardRecord>& shards, int ring_bits) {
  std::vector<ring::Candidate> candidates;
  v1::Map map;
  map.set_version(1);
  map.set_ring_bits(static_cast<uint32_t>(ring_bits));
  for (const auto& [id, shard] : shards) {
    candidates.push_back({.shard = ShardId(id), .zone = shard.info().zone()});
    *map.add_shards() = shard.info();
  }
  ABSL_ASSIGN_OR_RETURN(const ring::Assignment owners, ring::Assign(std::nullopt, candidates, 0, ring_bits));
  for (const ring::Owners& owner : owners) {
    v1::SegmentConfig& segment = *map.add_segments();
    segment.set_epoch(1);
    segment.mutable_primary()->set_shard(owner.primary.v);
    segment.mutable_primary()->set_incarnation(shards.at(owner.primary.v).info().incarnation());
  }
  return map;
}

v1::Map NextMap(const v1::Map& map, const v1::ShardInfo& shard, bool serve_again) {
  v1::Map next = map;
  next.set_version(map.version() + 1);
  v1::ShardInfo* place = nullptr;
  for (v1::ShardInfo& known : *next.mutable_shards()) {
    if (known.shard() == shard.shard()) place = &known;
  }
  if (place == nullptr) place = next.add_shards();
  *place = shard;
  if (!serve_again) return next;
  for (v1::SegmentConfig& segment : *next.mutable_segments()) {
    if (segment.primary().shard() != shard.shard()) continue;
    segment.mutable_primary()->set_incarnation(shard.incarnation());
    segment.set_epoch(segment.epoch() + 1);
  }
  return next;
}

v1::Map MapWithMove(const v1::Map& map, uint32_t segment, uint32_t shard) {
  v1::Map next = map;
  next.set_version(map.version() + 1);
  v1::SegmentConfig& config = *next.mutable_segments(static_cast<int>(segment));
  config.set_epoch(config.epoch() + 1);
  config.mutable_primary()->set_shard(shard);
  for (const v1::ShardInfo& info : map.shards()) {
    if (info.shard() == shard) config.mutable_primary()->set_incarnation(info.incarnation());
  }
  return next;
}

std::map<uint32_t, std::set<uint32_t>> LostSegments(const v1::Map& map) {
  std::map<uint32_t, uint64_t> newest;
  for (const v1::ShardInfo& shard : map.shards()) newest[shard.shard()] = shard.incarnation();
  std::map<uint32_t, std::set<uint32_t>> lost;
  for (int s = 0; s < map.segments_size(); ++s) {
    const v1::Member& primary = map.segments(s).primary();
    if (primary.incarnation() != newest[primary.shard()])
      lost[primary.shard()].insert(static_cast<uint32_t>(s));
  }
  return lost;
}

}  // namespace paceline::coordinator
