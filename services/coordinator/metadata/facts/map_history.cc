#include "services/coordinator/metadata/facts/map_history.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libs/base/planted.h"
#include "libs/wire/compact_map.h"

namespace paceline::coordinator {
namespace {

bool Same(const v1::Member& a, const v1::Member& b) {
  return a.shard() == b.shard() && a.incarnation() == b.incarnation();
}

bool Same(const v1::SegmentConfig& a, const v1::SegmentConfig& b) {
  return a.epoch() == b.epoch() && a.emptied_in() == b.emptied_in() && a.change_floor() == b.change_floor() &&
         a.lost() == b.lost() && Same(a.primary(), b.primary()) &&
         std::ranges::equal(a.replicas(), b.replicas(),
                            [](const auto& x, const auto& y) { return Same(x, y); });
}

}  // namespace

MapChange MapChangeOf(const v1::Map& before, const v1::Map& after) {
  MapChange change;
  for (int s = 0; s < after.segments_size(); ++s) {
    const bool same = s < before.segments_size() && Same(before.segments(s), after.segments(s));
    if (!same) change.segments.push_back(static_cast<uint32_t>(s));
  }
  std::map<uint32_t, const v1::ShardInfo*> known;
  for (const v1::ShardInfo& shard : before.shards()) known[shard.shard()] = &shard;
  for (const v1::ShardInfo& shard : after.shards()) {
    const auto it = known.find(shard.shard());
    const bool same = it != known.end() && it->second->SerializeAsString() == shard.SerializeAsString();
    if (!same) change.shards.push_back(shard.shard());
    if (it != known.end()) known.erase(it);
  }
  for (const auto& [shard, info] : known) change.forgotten.push_back(shard);
  return change;
}

void MapHistory::Add(std::shared_ptr<const v1::Map> newest, const MapChange* change) {
  newest_ = std::move(newest);
  made_.clear();
  encoded_.clear();
  compact_.clear();
  if (change == nullptr) {
    changes_.clear();
    changed_ = 0;
    return;
  }
  changes_.push_back(*change);
  changed_ += change->segments.size();
  // As much as a few maps take.
  const auto most = 4 * static_cast<size_t>(newest_->segments_size());
  while (!changes_.empty() && (changes_.size() > kVersionsMax || changed_ > most)) {
    changed_ -= changes_.front().segments.size();
    changes_.pop_front();
  }
}

std::shared_ptr<const v1::Map> MapHistory::Since(uint64_t known) const {
  const bool in_reach =
      newest_ != nullptr && known < newest_->version() && known + changes_.size() >= newest_->version();
  if (!in_reach) return nullptr;
  const auto [it, fresh] = made_.try_emplace(known);
  if (fresh) it->second = Make(known);
  return it->second;
}

std::shared_ptr<const v1::Map> MapHistory::Make(uint64_t known) const {
  const bool last_only = Planted(Bug::kDeltaOnWrongBase);
  std::set<uint32_t> segments;
  std::map<uint32_t, bool> shards;  // true: listed
  for (size_t i = last_only ? changes_.size() - 1 : known + changes_.size() - newest_->version();
       i < changes_.size(); ++i) {
    segments.insert(changes_[i].segments.begin(), changes_[i].segments.end());
    for (const uint32_t shard : changes_[i].shards) shards[shard] = true;
    for (const uint32_t shard : changes_[i].forgotten) shards[shard] = false;
  }
  if (2 * segments.size() > static_cast<size_t>(newest_->segments_size())) return nullptr;
  auto map = std::make_shared<v1::Map>();
  map->set_version(newest_->version());
  map->set_ring_bits(newest_->ring_bits());
  map->set_cluster(newest_->cluster());
  map->set_feature_level(newest_->feature_level());
  v1::MapDelta& delta = *map->mutable_delta();
  delta.set_from(known);
  for (const uint32_t segment : segments) {
    v1::MapDelta::Segment& changed = *delta.add_segments();
    changed.set_segment(segment);
    *changed.mutable_config() = newest_->segments(static_cast<int>(segment));
  }
  for (const auto& [shard, listed] : shards) {
    if (!listed) delta.add_forgotten(shard);
  }
  for (const v1::ShardInfo& info : newest_->shards()) {
    const auto it = shards.find(info.shard());
    if (it != shards.end() && it->second) *delta.add_shards() = info;
  }
  return map;
}

const std::string& MapHistory::Compact() const {
  if (compact_.empty()) compact_ = wire::Compact(*newest_).SerializeAsString();
  return compact_;
}

const std::string& MapHistory::Encoded() const {
  if (encoded_.empty()) encoded_ = newest_->SerializeAsString();
  return encoded_;
}

}  // namespace paceline::coordinator
