#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libs/ring/segment_map.h"
#include "libs/wire/packed.h"

namespace paceline::sdk {

// The most bytes of one frame: beyond about 1 MB a message costs more than two of half its size.
inline constexpr size_t kFrameBytes = (1 << 20) - (1 << 14);
// … and of one that pushes. A shard first takes all of a frame and then applies it, while the next one is on
// its way: of two halves the second is copied while the first is applied, and more of both stays in the
// caches.
inline constexpr size_t kPushFrameBytes = kFrameBytes / 2;
// The most bytes of one part, so that at least two fit a frame.
inline constexpr size_t kPieceBytes = kFrameBytes / 2;
inline constexpr size_t kPushPieceBytes = kPushFrameBytes / 2 - wire::kPartEntryBytes;

// How calls are cut: a map and the best order of segments in memory, those of one primary side by side, so
// that one piece goes to one shard; and the size of a piece. Immutable; safe to read from any thread.
struct Routes {
  ring::SegmentMap map;
  std::vector<uint32_t> rank;       // of each segment in that order
  std::vector<SegmentId> segments;  // by rank
  size_t piece_bytes = kPieceBytes;

  size_t PushPieceBytes() const { return std::min(piece_bytes, kPushPieceBytes); }

  static std::shared_ptr<const Routes> Of(ring::SegmentMap map, size_t piece_bytes = kPieceBytes);

  // The shard that serves `segment`. Every primary of a map is among its shards.
  const ring::ShardInfo& PrimaryOf(SegmentId segment) const {
    return *map.FindShard(map.Primary(segment).shard);
  }
  // The segments `shard` is primary of, ascending.
  std::vector<SegmentId> PrimariesOf(ShardId shard) const;
};

// Shuts and removes the links, by shard, to those that are a member of no segment any more, and gives the
// others the present address of theirs.
template <class Links>
void FollowRoutes(const Routes& routes, Links& links) {
  for (auto it = links.begin(); it != links.end();) {
    const ring::ShardInfo* shard = routes.map.FindShard(it->first);
    if (shard == nullptr || routes.map.SegmentsOf(it->first).empty()) {
      it->second->Shut();
      it = links.erase(it);
      continue;
    }
    it->second->SetShard(*shard);
    ++it;
  }
}

}  // namespace paceline::sdk
