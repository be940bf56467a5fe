#include "libs/ring/segment_map.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/placement.h"

namespace paceline::ring {
namespace {

absl::Status Bad(std::string message) {
  return absl::InvalidArgumentError(absl::StrCat("segment map: ", message));
}

absl::Status CheckShards(const std::vector<ShardInfo>& sorted) {
  absl::flat_hash_set<std::string_view> names;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const ShardInfo& shard = sorted[i];
    if (i > 0 && sorted[i - 1].id == shard.id) {
      return Bad(absl::StrCat("shard ", shard.id.v, " is listed twice; expected each shard once"));
    }
    if (shard.name.empty() || shard.address.empty()) {
      return Bad(absl::StrCat("shard ", shard.id.v, " has no ", shard.name.empty() ? "name" : "address"));
    }
    if (!names.insert(shard.name).second) {
      return Bad(absl::StrCat("two shards are called '", shard.name, "'; expected distinct names"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToString(const Member& member) {
  return absl::StrCat("shard ", member.shard.v, " (incarnation ", member.incarnation.v, ")");
}

absl::StatusOr<SegmentMap> SegmentMap::Create(MapVersion version, int ring_bits,
                                              std::vector<SegmentConfig> segments,
                                              std::vector<ShardInfo> shards, uint32_t feature_level) {
  if (version == MapVersion(0)) {
    return Bad("version is 0, which stands for 'no map yet'; versions count from 1");
  }
  if (ring_bits < 0 || ring_bits > kRingBitsMax) {
    return Bad(absl::StrCat("ring_bits is ", ring_bits, "; expected 0 to ", kRingBitsMax));
  }
  if (segments.size() != size_t{1} << ring_bits) {
    return Bad(
        absl::StrCat(segments.size(), " segments; expected ", 1u << ring_bits, " for ring_bits ", ring_bits));
  }
  SegmentMap map;
  map.version_ = version;
  map.feature_level_ = std::max<uint32_t>(feature_level, 1);
  map.ring_bits_ = ring_bits;
  map.shards_ = std::move(shards);
  std::sort(map.shards_.begin(), map.shards_.end(),
            [](const ShardInfo& a, const ShardInfo& b) { return a.id < b.id; });
  ABSL_RETURN_IF_ERROR(CheckShards(map.shards_));
  for (uint32_t i = 0; i < map.shards_.size(); ++i) {
    map.index_.emplace(map.shards_[i].id, i);
  }
  map.held_.resize(map.shards_.size());
  map.segments_.resize(segments.size());
  for (uint32_t s = 0; s < segments.size(); ++s) {
    ABSL_RETURN_IF_ERROR(map.Set(SegmentId(s), segments[s]));
  }
  return map;
}

absl::StatusOr<SegmentMap> SegmentMap::With(
    MapVersion version, uint32_t feature_level,
    absl::Span<const std::pair<SegmentId, SegmentConfig>> changed) const {
  SegmentMap map = *this;
  map.version_ = version;
  map.feature_level_ = std::max<uint32_t>(feature_level, 1);
  for (const auto& [segment, config] : changed) {
    if (!Contains(segment)) {
      return Bad(absl::StrCat("segment ", segment.v, "; the ring has 0 to ", SegmentCount() - 1));
    }
    map.LetGo(segment);
    ABSL_RETURN_IF_ERROR(map.Set(segment, config));
  }
  map.Pack();
  return map;
}

absl::Status SegmentMap::Set(SegmentId segment, const SegmentConfig& config) {
  if (config.epoch == Epoch(0)) {
    return Bad(absl::StrCat("segment ", segment.v, " has epoch 0; epochs count from 1"));
  }
  Entry& entry = segments_[segment.v];
  const auto count = static_cast<uint32_t>(1 + config.replicas.size());
  const bool fits = count <= entry.count;
  const auto begin = fits ? entry.begin : static_cast<uint32_t>(members_.size());
  if (!fits) members_.resize(begin + count);
  entry = {config.epoch, begin, count, config.emptied_in, config.change_floor, config.lost};
  ABSL_RETURN_IF_ERROR(Hold(segment, config.primary));
  members_[begin] = config.primary;
  for (uint32_t i = 1; i < count; ++i) {
    ABSL_RETURN_IF_ERROR(Hold(segment, config.replicas[i - 1]));
    members_[begin + i] = config.replicas[i - 1];
  }
  return absl::OkStatus();
}

absl::Status SegmentMap::Hold(SegmentId segment, const Member& member) {
  const auto found = index_.find(member.shard);
  if (found == index_.end()) {
    return Bad(absl::StrCat("segment ", segment.v, " names ", ToString(member),
                            ", which is not among the shards; list it with its address"));
  }
  const Incarnation known = shards_[found->second].incarnation;
  if (member.incarnation > known) {
    return Bad(absl::StrCat("segment ", segment.v, " names ", ToString(member),
                            ", newer than the newest known one, ", known.v));
  }
  std::vector<SegmentId>& held = held_[found->second];
  const auto place = std::lower_bound(held.begin(), held.end(), segment);
  if (place != held.end() && *place == segment) {
    return Bad(absl::StrCat("segment ", segment.v, " names shard ", member.shard.v,
                            " twice; expected its members on distinct shards"));
  }
  held.insert(place, segment);
  return absl::OkStatus();
}

void SegmentMap::LetGo(SegmentId segment) {
  for (const Member& member : Members(segment)) {
    std::vector<SegmentId>& held = held_[index_.at(member.shard)];
    held.erase(std::lower_bound(held.begin(), held.end(), segment));
  }
}

// What segments have left behind is dropped once it is as much as they have.
void SegmentMap::Pack() {
  size_t used = 0;
  for (const Entry& entry : segments_) used += entry.count;
  if (members_.size() <= 2 * used) return;
  std::vector<Member> members;
  members.reserve(used);
  for (Entry& entry : segments_) {
    const auto begin = static_cast<uint32_t>(members.size());
    const auto from = members_.begin() + entry.begin;
    members.insert(members.end(), from, from + entry.count);
    entry.begin = begin;
  }
  members_ = std::move(members);
}

absl::Span<const Member> SegmentMap::Members(SegmentId segment) const {
  const Entry& entry = segments_[segment.v];
  return absl::MakeConstSpan(members_).subspan(entry.begin, entry.count);
}

const ShardInfo* SegmentMap::FindShard(ShardId shard) const {
  const auto found = index_.find(shard);
  return found == index_.end() ? nullptr : &shards_[found->second];
}

absl::Span<const SegmentId> SegmentMap::SegmentsOf(ShardId shard) const {
  const auto found = index_.find(shard);
  if (found == index_.end()) {
    return {};
  }
  return held_[found->second];
}

SegmentConfig SegmentMap::ConfigOf(SegmentId segment) const {
  const absl::Span<const Member> members = Members(segment);
  return {.epoch = EpochOf(segment),
          .primary = members.front(),
          .replicas = {members.begin() + 1, members.end()},
          .emptied_in = segments_[segment.v].emptied_in,
          .change_floor = segments_[segment.v].change_floor,
          .lost = segments_[segment.v].lost};
}

}  // namespace paceline::ring
