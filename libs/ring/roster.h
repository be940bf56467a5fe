#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/planner.h"

namespace paceline::ring {

// The candidates of one planning run, numbered 0 .. size() - 1 in the order of their ids, so that the planner
// counts in vectors. Part of the planner; of no use elsewhere.
class Roster {
 public:
  static constexpr int kUnknown = -1;

  // kInvalidArgument: no candidates, or two of one id.
  static absl::StatusOr<Roster> Create(absl::Span<const Candidate> candidates, int ring_bits);

  int size() const { return static_cast<int>(ids_.size()); }
  ShardId IdOf(int index) const { return ids_[index]; }
  // kUnknown: `shard` is no candidate.
  int IndexOf(ShardId shard) const;
  // Whether both are known to be in one zone.
  bool SameZone(int a, int b) const { return zones_[a] != kUnknown && zones_[a] == zones_[b]; }

  // How far clockwise from the start of `segment` the next virtual node of a candidate lies. O(log
  // kVirtualNodes).
  uint64_t Distance(uint32_t segment, int index) const;

 private:
  Roster() = default;

  int ring_bits_ = 0;
  std::vector<ShardId> ids_;
  std::vector<int> zones_;
  std::vector<std::vector<uint64_t>> nodes_;  // per candidate, ascending
  absl::flat_hash_map<ShardId, int> index_;
};

}  // namespace paceline::ring
