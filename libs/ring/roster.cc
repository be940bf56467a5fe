#include "libs/ring/roster.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "libs/ring/hash.h"

namespace paceline::ring {

Roster::Roster(absl::Span<const ShardState> shards, size_t segments)
    : ring_bits_(segments <= 1 ? 0 : static_cast<int>(std::bit_width(segments - 1))) {
  std::vector<const ShardState*> sorted;
  for (const ShardState& shard : shards) {
    sorted.push_back(&shard);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const ShardState* a, const ShardState* b) { return a->shard < b->shard; });
  absl::flat_hash_map<std::string_view, int> zones;
  for (const ShardState* shard : sorted) {
    index_.emplace(shard->shard, size());
    ids_.push_back(shard->shard);
    takes_.push_back(shard->takes);
    zones_.push_back(shard->zone.empty()
                         ? kUnknown
                         : zones.emplace(shard->zone, static_cast<int>(zones.size())).first->second);
    std::vector<uint64_t>& nodes = nodes_.emplace_back();
    for (uint64_t v = 0; v < kVirtualNodes; ++v) {
      nodes.push_back(Mix64(uint64_t{shard->shard.v}, v));
    }
    std::sort(nodes.begin(), nodes.end());
  }
}

uint64_t Roster::Distance(uint32_t segment, int index) const {
  // The only segment of a ring of one starts at 0; to shift by 64 is undefined.
  const uint64_t start = ring_bits_ == 0 ? 0 : uint64_t{segment} << (64 - ring_bits_);
  const std::vector<uint64_t>& nodes = nodes_[index];
  const auto next = std::lower_bound(nodes.begin(), nodes.end(), start);
  return (next == nodes.end() ? nodes.front() : *next) - start;  // wraps, as the circle does
}

}  // namespace paceline::ring
