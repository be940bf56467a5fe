#include "libs/wire/map_codec.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/wire/texts.h"

namespace paceline::wire {
namespace {

void Set(const ring::Member& member, v1::Member* out) {
  out->set_shard(member.shard.v);
  out->set_incarnation(member.incarnation.v);
}

ring::ShardInfo ShardFromProto(const v1::ShardInfo& info) {
  return {.id = ShardId(info.shard()),
          .name = info.name(),
          .address = info.address(),
          .incarnation = Incarnation(info.incarnation()),
          .peer_address = info.peer_address()};
}

absl::Status CheckTextsOf(const v1::Map& map) {
  const absl::Status wrong = CheckTexts(map);
  return wrong.ok() ? wrong : absl::InvalidArgumentError(absl::StrCat("map: ", wrong.message()));
}

std::vector<ring::ShardInfo> NextShards(const v1::MapDelta& delta, const ring::SegmentMap& have) {
  std::map<ShardId, ring::ShardInfo> shards;
  for (const ring::ShardInfo& shard : have.shards()) shards[shard.id] = shard;
  for (const uint32_t shard : delta.forgotten()) shards.erase(ShardId(shard));
  for (const v1::ShardInfo& info : delta.shards()) shards[ShardId(info.shard())] = ShardFromProto(info);
  std::vector<ring::ShardInfo> next;
  for (auto& [id, shard] : shards) next.push_back(std::move(shard));
  return next;
}

}  // namespace

ring::Member MemberFromProto(const v1::Member& member) {
  return {.shard = ShardId(member.shard()), .incarnation = Incarnation(member.incarnation())};
}

v1::Member ToProto(const ring::Member& member) {
  v1::Member proto;
  Set(member, &proto);
  return proto;
}

ring::SegmentConfig ConfigFromProto(const v1::SegmentConfig& config) {
  ring::SegmentConfig segment{.epoch = Epoch(config.epoch()),
                              .primary = MemberFromProto(config.primary()),
                              .replicas = {},
                              .emptied_in = Epoch(config.emptied_in()),
                              .change_floor = config.change_floor(),
                              .lost = config.lost()};
  for (const v1::Member& replica : config.replicas()) segment.replicas.push_back(MemberFromProto(replica));
  return segment;
}

v1::Map ToProto(const ring::SegmentMap& map) {
  v1::Map out;
  out.set_version(map.version().v);
  out.set_ring_bits(static_cast<uint32_t>(map.ring_bits()));
  if (map.feature_level() > 1) out.set_feature_level(map.feature_level());  // absent: level 1
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    const ring::SegmentConfig segment = map.ConfigOf(SegmentId(s));
    v1::SegmentConfig* config = out.add_segments();
    config->set_epoch(segment.epoch.v);
    config->set_emptied_in(segment.emptied_in.v);
    config->set_change_floor(segment.change_floor);
    config->set_lost(segment.lost);
    Set(segment.primary, config->mutable_primary());
    for (const ring::Member& replica : segment.replicas) Set(replica, config->add_replicas());
  }
  for (const ring::ShardInfo& shard : map.shards()) {
    v1::ShardInfo* info = out.add_shards();
    info->set_shard(shard.id.v);
    info->set_name(shard.name);
    info->set_address(shard.address);
    info->set_incarnation(shard.incarnation.v);
    info->set_peer_address(shard.peer_address);
  }
  return out;
}

absl::StatusOr<ring::SegmentMap> MapFromProto(const v1::Map& map) {
  ABSL_RETURN_IF_ERROR(CheckTextsOf(map));
  std::vector<ring::SegmentConfig> segments;
  segments.reserve(map.segments_size());
  for (const v1::SegmentConfig& config : map.segments()) segments.push_back(ConfigFromProto(config));
  std::vector<ring::ShardInfo> shards;
  shards.reserve(map.shards_size());
  for (const v1::ShardInfo& info : map.shards()) shards.push_back(ShardFromProto(info));
  return ring::SegmentMap::Create(MapVersion(map.version()), static_cast<int>(map.ring_bits()),
                                  std::move(segments), std::move(shards), map.feature_level());
}

bool Follows(const v1::Map& map, MapVersion have) {
  return !map.has_delta() || (have != MapVersion() && MapVersion(map.delta().from()) <= have);
}

absl::StatusOr<ring::SegmentMap> NextMap(const v1::Map& map, const ring::SegmentMap* have) {
  if (!map.has_delta()) return MapFromProto(map);
  ABSL_RETURN_IF_ERROR(CheckTextsOf(map));
  if (have == nullptr || !Follows(map, have->version())) {
    return absl::InvalidArgumentError(absl::StrCat("map: what has changed since version ", map.delta().from(),
                                                   "; the receiver has ",
                                                   have == nullptr ? 0 : have->version().v));
  }
  if (map.ring_bits() != static_cast<uint32_t>(have->ring_bits())) {
    return absl::InvalidArgumentError(absl::StrCat("map: ring_bits is ", map.ring_bits(), ", before it was ",
                                                   have->ring_bits(), ", and it never changes"));
  }
  std::vector<std::pair<SegmentId, ring::SegmentConfig>> changed;
  for (const v1::MapDelta::Segment& segment : map.delta().segments()) {
    changed.emplace_back(SegmentId(segment.segment()), ConfigFromProto(segment.config()));
  }
  const MapVersion version(map.version());
  if (map.delta().shards().empty() && map.delta().forgotten().empty()) {
    return have->With(version, map.feature_level(), changed);
  }
  std::vector<ring::SegmentConfig> segments;
  segments.reserve(have->SegmentCount());
  for (uint32_t s = 0; s < have->SegmentCount(); ++s) segments.push_back(have->ConfigOf(SegmentId(s)));
  for (auto& [segment, config] : changed) {
    if (!have->Contains(segment)) {
      return absl::InvalidArgumentError(
          absl::StrCat("map: segment ", segment.v, "; the ring has 0 to ", have->SegmentCount() - 1));
    }
    segments[segment.v] = std::move(config);
  }
  return ring::SegmentMap::Create(version, have->ring_bits(), std::move(segments),
                                  NextShards(map.delta(), *have), map.feature_level());
}

}  // namespace paceline::wire
