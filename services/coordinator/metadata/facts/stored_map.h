#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/facts/map_history.h"
#include "services/coordinator/store/store.h"

// How the store holds the map: from feature level 2 on its segments are in chunks of ClusterRecord.map_chunk,
// so that a commit writes those that it changes, and the map without its segments. Before, it is one value. A
// map's writes are of one commit: half of them would be another map.
namespace paceline::coordinator {

// Segments in a chunk, in a ring of this many.
uint32_t MapChunkOf(uint32_t segments);

// The writes of a map that differs by `change` from the one in the store; nullptr: nothing of it is there.
// `chunk` 0: the map is one value.
std::vector<Write> MapWrites(const v1::Map& map, uint32_t chunk, const MapChange* change);
// True if a part of a map, or how it is held, is at the key.
bool IsOfMap(absl::string_view key);
// The value of a key of which IsOfMap is true, other than `cluster`; `map` may be null.
Write MapWriteOf(const std::string& key, const v1::Map* map, uint32_t chunk);

// nullopt: there is none. kDataLoss: it cannot be read.
absl::StatusOr<std::optional<v1::Map>> ReadMap(const Store& store);

}  // namespace paceline::coordinator
