#pragma once

#include <memory>

#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// The kind of table; near: over shared memory.
enum class Kind { kRanged, kSparse, kNearRanged, kNearSparse };
const char* NameOf(Kind kind);
inline bool IsRanged(Kind kind) {
  return kind == Kind::kRanged || kind == Kind::kNearRanged;
}
inline bool IsNear(Kind kind) {
  return kind == Kind::kNearRanged || kind == Kind::kNearSparse;
}

// A cluster of one shard, without copies, disks or cache, and a client of it in this process. Rule Add, under
// ASP.
absl::StatusOr<std::unique_ptr<System>> StartPaceline(tool::Supervisor& supervisor, const Data& data,
                                                      Kind kind);

}  // namespace paceline::bench::peers
