#pragma once

#include <cstdint>
#include <memory>

#include "libs/world/port.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// Frames have at most 8 MiB; somewhat larger ones of clients are refused by name, and their carrier ends a
// stream for the rest.
inline constexpr uint64_t kClientFrameBytesMax = uint64_t{16} << 20;

// A handler for a stream that a carrier has accepted, whoever may open it there.
std::shared_ptr<world::AcceptedStream> NewStream(Shard& shard, world::StreamKind kind);

}  // namespace paceline::shard
