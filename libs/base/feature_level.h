#pragma once

#include <cstdint>

namespace paceline {

// The newest protocol that this release speaks: what client, shard and coordinator tell each other first.
// docs/wire.md says what belongs to which level, and how levels meet. What a shard of an older level could
// not read, above all records and images, is written only once the map says that all shards speak it
// (`Map.feature_level`).
inline constexpr uint32_t kFeatureLevel = 2;
// The oldest that it still speaks with others.
inline constexpr uint32_t kOldestFeatureLevel = 1;

}  // namespace paceline
