#include "libs/ring/roster.h"

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/ring/hash.h"

namespace paceline::ring {

absl::StatusOr<Roster> Roster::Create(absl::Span<const Candidate> candidates, int ring_bits) {
  if (candidates.empty()) {
    return absl::InvalidArgumentError("assignment: no candidates; expected at least one shard to give to");
  }
  std::vector<const Candidate*> sorted;
  for (const Candidate& candidate : candidates) {
    sorted.push_back(&candidate);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Candidate* a, const Candidate* b) { return a->shard < b->shard; });
  Roster roster;
  roster.ring_bits_ = ring_bits;
  absl::flat_hash_map<std::string_view, int> zones;
  for (const Candidate* candidate : sorted) {
    const ShardId id = candidate->shard;
    if (!roster.index_.emplace(id, roster.size()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("assignment: shard ", id.v, " is a candidate twice; expected distinct shards"));
    }
    roster.ids_.push_back(id);
    roster.zones_.push_back(
        candidate->zone.empty()
            ? kUnknown
            : zones.emplace(candidate->zone, static_cast<int>(zones.size())).first->second);
    std::vector<uint64_t>& nodes = roster.nodes_.emplace_back();
    for (uint64_t v = 0; v < kVirtualNodes; ++v) {
      nodes.push_back(Mix64(uint64_t{id.v}, v));
    }
    std::sort(nodes.begin(), nodes.end());
  }
  return roster;
}

int Roster::IndexOf(ShardId shard) const {
  const auto found = index_.find(shard);
  return found == index_.end() ? kUnknown : found->second;
}

uint64_t Roster::Distance(uint32_t segment, int index) const {
  // The only segment of a ring of one starts at 0; to shift by 64 is undefined.
  const uint64_t start = ring_bits_ == 0 ? 0 : uint64_t{segment} << (64 - ring_bits_);
  const std::vector<uint64_t>& nodes = nodes_[index];
  const auto next = std::lower_bound(nodes.begin(), nodes.end(), start);
  return (next == nodes.end() ? nodes.front() : *next) - start;  // wraps, as the circle does
}

}  // namespace paceline::ring
