#pragma once

#include <cstdint>

namespace paceline {

// The newest protocol level that this release speaks. Client, shard and coordinator state it in their first
// message. docs/wire.md says which features belong to which level, and how processes of different levels
// talk. A process writes what an older shard could not read, above all records and images, only once the map
// says that every shard speaks the level (`Map.feature_level`).
inline constexpr uint32_t kFeatureLevel = 2;
// The oldest level that this release still accepts from a peer.
inline constexpr uint32_t kOldestFeatureLevel = 1;

}  // namespace paceline
