#include "libs/wire/compact_map.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::wire {
namespace {

constexpr int kSegmentsMax = 1 << 16;

// Epoch, members and the floor of changes have columns of their own.
bool IsPlain(const v1::SegmentConfig& config) {
  return config.has_primary() && config.emptied_in() == 0 && !config.lost();
}

// Gives each member its place.
class Members {
 public:
  explicit Members(v1::CompactMap& compact) : compact_(compact) {}

  uint32_t PlaceOf(const v1::Member& member) {
    const auto [it, fresh] = places_.try_emplace({member.shard(), member.incarnation()},
                                                 static_cast<uint32_t>(compact_.members_size()));
    if (fresh) *compact_.add_members() = member;
    return it->second;
  }

 private:
  v1::CompactMap& compact_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> places_;
};

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("compact map: ", what));
}

absl::Status CheckColumns(const v1::CompactMap& compact) {
  const int segments = compact.epochs_size();
  if (compact.rest().segments_size() > 0 || compact.rest().has_delta()) {
    return Broken("its rest has segments, or a delta");
  }
  if (segments > kSegmentsMax) {
    return Broken(absl::StrCat(segments, " segments; expected at most ", kSegmentsMax));
  }
  if (compact.copies_size() != segments) {
    return Broken(absl::StrCat("copies has ", compact.copies_size(), " entries; epochs has ", segments));
  }
  if (compact.change_floors_size() != 0 && compact.change_floors_size() != segments) {
    return Broken(
        absl::StrCat("change_floors has ", compact.change_floors_size(), " entries; epochs has ", segments));
  }
  const uint64_t copies = std::accumulate(compact.copies().begin(), compact.copies().end(), uint64_t{0});
  if (copies != static_cast<uint64_t>(compact.places_size())) {
    return Broken(
        absl::StrCat("places has ", compact.places_size(), " entries; the sum of copies is ", copies));
  }
  for (const uint32_t place : compact.places()) {
    if (place >= static_cast<uint32_t>(compact.members_size())) {
      return Broken(absl::StrCat("place ", place, "; there are ", compact.members_size(), " members"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

v1::CompactMap Compact(const v1::Map& map) {
  v1::CompactMap compact;
  v1::Map& rest = *compact.mutable_rest();
  rest.set_version(map.version());
  rest.set_ring_bits(map.ring_bits());
  *rest.mutable_shards() = map.shards();
  rest.set_cluster(map.cluster());
  rest.set_feature_level(map.feature_level());
  Members members(compact);
  bool floors = false;
  for (int s = 0; s < map.segments_size(); ++s) {
    const v1::SegmentConfig& config = map.segments(s);
    compact.add_epochs(config.epoch());
    compact.add_change_floors(config.change_floor());
    floors |= config.change_floor() != 0;
    if (!IsPlain(config)) {
      compact.add_copies(0);
      v1::MapDelta::Segment& other = *compact.add_others();
      other.set_segment(static_cast<uint32_t>(s));
      *other.mutable_config() = config;
      continue;
    }
    compact.add_copies(1 + static_cast<uint32_t>(config.replicas_size()));
    compact.add_places(members.PlaceOf(config.primary()));
    for (const v1::Member& replica : config.replicas()) compact.add_places(members.PlaceOf(replica));
  }
  if (!floors) compact.clear_change_floors();
  return compact;
}

absl::StatusOr<v1::Map> Expand(const v1::CompactMap& compact) {
  ABSL_RETURN_IF_ERROR(CheckColumns(compact));
  v1::Map map = compact.rest();
  std::vector<v1::Member> members(compact.members().begin(), compact.members().end());
  for (v1::Member& member : members) member.DiscardUnknownFields();  // each may be copied many times
  int place = 0;
  int other = 0;
  for (int s = 0; s < compact.epochs_size(); ++s) {
    v1::SegmentConfig& config = *map.add_segments();
    if (compact.copies(s) == 0) {
      if (other == compact.others_size() || compact.others(other).segment() != static_cast<uint32_t>(s)) {
        return Broken(absl::StrCat("segment ", s, " has no copies, and is not the next of others"));
      }
      config = compact.others(other++).config();
      continue;
    }
    config.set_epoch(compact.epochs(s));
    if (compact.change_floors_size() > 0) config.set_change_floor(compact.change_floors(s));
    const int end = place + static_cast<int>(compact.copies(s));
    *config.mutable_primary() = members[compact.places(place++)];
    for (; place < end; ++place) {
      *config.add_replicas() = members[compact.places(place)];
    }
  }
  if (other == compact.others_size()) return map;
  return Broken(absl::StrCat(compact.others_size() - other,
                             " of others are not of a segment without copies, in order"));
}

}  // namespace paceline::wire
