#pragma once

#include <cstdint>

namespace paceline {

// The protocol this release speaks: what client, shard and coordinator tell each other first. docs/wire.md
// says what belongs to it and how levels meet.
inline constexpr uint32_t kFeatureLevel = 1;

}  // namespace paceline
