#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/plan.h"

namespace paceline::ring {

// The shards of one planning run, numbered 0 .. size() - 1 in the order of their ids, so that the planner
// counts in vectors. Part of the planner; of no use elsewhere.
class Roster {
 public:
  // REQUIRES: `shards` are distinct.
  Roster(absl::Span<const ShardState> shards, size_t segments);

  int size() const { return static_cast<int>(ids_.size()); }
  ShardId IdOf(int index) const { return ids_[index]; }
  // REQUIRES: `shard` is one of them.
  int IndexOf(ShardId shard) const { return index_.at(shard); }
  ShardState::Takes TakesOf(int index) const { return takes_[index]; }
  // Whether both are known to be in one zone.
  bool SameZone(int a, int b) const { return zones_[a] != kUnknown && zones_[a] == zones_[b]; }

  // How far clockwise from the start of `segment` the next virtual node of a shard lies. O(log
  // kVirtualNodes).
  uint64_t Distance(uint32_t segment, int index) const;

 private:
  static constexpr int kUnknown = -1;

  int ring_bits_;
  std::vector<ShardId> ids_;
  std::vector<ShardState::Takes> takes_;
  std::vector<int> zones_;
  std::vector<std::vector<uint64_t>> nodes_;  // per shard, ascending
  absl::flat_hash_map<ShardId, int> index_;
};

}  // namespace paceline::ring
