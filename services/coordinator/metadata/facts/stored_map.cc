#include "services/coordinator/metadata/facts/stored_map.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/facts/record_io.h"

namespace paceline::coordinator {
namespace {

// More would be too many writes for a commit of some stores: etcd takes 128.
constexpr uint32_t kChunksMax = 64;
constexpr uint32_t kChunkUsual = 64;

// All but the segments.
v1::Map HeaderOf(const v1::Map& map) {
  v1::Map header;
  header.set_version(map.version());
  header.set_ring_bits(map.ring_bits());
  *header.mutable_shards() = map.shards();
  header.set_cluster(map.cluster());
  header.set_feature_level(map.feature_level());
  return header;
}

Write ChunkOf(const v1::Map& map, uint32_t chunk, uint32_t number) {
  MapChunkRecord record;
  const auto end = std::min<uint32_t>((number + 1) * chunk, static_cast<uint32_t>(map.segments_size()));
  for (uint32_t s = number * chunk; s < end; ++s) *record.add_segments() = map.segments(static_cast<int>(s));
  return Put(keys::MapChunk(number), record);
}

}  // namespace

// Small rings have several chunks too, so that nothing is true of large ones alone.
uint32_t MapChunkOf(uint32_t segments) {
  return std::max<uint32_t>({1, segments / kChunksMax, std::min(segments / 4, kChunkUsual)});
}

std::vector<Write> MapWrites(const v1::Map& map, uint32_t chunk, const MapChange* change) {
  if (chunk == 0) return {Put(std::string(keys::kMap), map)};
  std::set<uint32_t> numbers;
  if (change != nullptr) {
    for (const uint32_t segment : change->segments) numbers.insert(segment / chunk);
  } else {
    const auto segments = static_cast<uint32_t>(map.segments_size());
    for (uint32_t number = 0; number * chunk < segments; ++number) numbers.insert(number);
  }
  std::vector<Write> writes = {Put(std::string(keys::kMap), HeaderOf(map))};
  for (const uint32_t number : numbers) writes.push_back(ChunkOf(map, chunk, number));
  return writes;
}

bool IsOfMap(absl::string_view key) {
  return key == keys::kMap || key == keys::kCluster || absl::StartsWith(key, keys::kMapChunks);
}

Write MapWriteOf(const std::string& key, const v1::Map* map, uint32_t chunk) {
  if (key == keys::kMap) {
    if (map == nullptr) return Write::Delete(key);
    return Put(key, chunk == 0 ? *map : HeaderOf(*map));
  }
  uint32_t number = 0;
  absl::string_view text = key;
  const bool is_chunk = absl::ConsumePrefix(&text, keys::kMapChunks) && absl::SimpleAtoi(text, &number);
  const bool there = is_chunk && map != nullptr && chunk != 0 &&
                     uint64_t{number} * chunk < static_cast<uint64_t>(map->segments_size());
  return there ? ChunkOf(*map, chunk, number) : Write::Delete(key);
}

absl::StatusOr<std::optional<v1::Map>> ReadMap(const Store& store) {
  ABSL_ASSIGN_OR_RETURN(const auto cluster, Read<ClusterRecord>(store, keys::kCluster));
  ABSL_ASSIGN_OR_RETURN(std::optional<v1::Map> map, Read<v1::Map>(store, keys::kMap));
  if (!map.has_value() || !cluster.has_value() || cluster->map_chunk() == 0) return map;
  ABSL_ASSIGN_OR_RETURN(const auto entries, store.List(keys::kMapChunks));
  for (const auto& [key, entry] : entries) {
    ABSL_ASSIGN_OR_RETURN(MapChunkRecord record, Parse<MapChunkRecord>(key, entry));
    for (v1::SegmentConfig& config : *record.mutable_segments()) *map->add_segments() = std::move(config);
  }
  if (map->segments_size() == int{1} << map->ring_bits()) return map;
  return absl::DataLossError(absl::StrCat("store: the values of ", keys::kMapChunks, "… have ",
                                          map->segments_size(), " segments; the ring has 2^",
                                          map->ring_bits(),
                                          "; restore the store from a backup, or start a new cluster"));
}

}  // namespace paceline::coordinator
