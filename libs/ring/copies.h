#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/ring/plan.h"
#include "libs/ring/roster.h"

namespace paceline::ring {

// The copies that each shard holds while a round is being planned, as if the moves planned so far were done.
// Part of the planner; of no use elsewhere.
class Copies {
 public:
  static constexpr int kNone = -1;

  // Members as they are, moves under way done.
  Copies(const PlanInput& input, const Roster& roster);

  uint32_t count() const { return static_cast<uint32_t>(primaries_.size()); }
  int PrimaryOf(uint32_t segment) const { return primaries_[segment]; }
  const std::vector<int>& ReplicasOf(uint32_t segment) const { return replicas_[segment]; }
  size_t SizeOf(uint32_t segment) const;
  bool Holds(uint32_t segment, int shard) const;
  // How many members of `segment` but `without` share the zone of `shard`.
  int Conflicts(uint32_t segment, int shard, int without = kNone) const;
  int64_t WeightOf(uint32_t segment) const { return input_.segments[segment].load; }
  // Segments with this primary and this replica.
  int Pairs(int primary, int replica) const;

  void Add(uint32_t segment, int shard);  // as primary if there is none
  void Remove(uint32_t segment, int replica);
  // The same for any member; if it is the primary, `heir` takes its place.
  void Remove(uint32_t segment, int member, int heir);
  void Apply(Move::Kind kind, uint32_t segment, int to);

  // By shard, the sums of the weights of its copies, and of its primaries.
  const std::vector<int64_t>& loads() const { return loads_; }
  const std::vector<int64_t>& primary_loads() const { return primary_loads_; }
  // The segments a shard is a replica of, in no order.
  const std::vector<uint32_t>& ReplicaOf(int shard) const { return replica_of_[shard]; }

  Assignment ToAssignment() const;

 private:
  void Swap(uint32_t segment, int replica);

  const PlanInput& input_;
  const Roster& roster_;
  std::vector<int> primaries_;
  std::vector<std::vector<int>> replicas_;
  std::vector<int64_t> loads_;
  std::vector<int64_t> primary_loads_;
  std::vector<std::vector<uint32_t>> replica_of_;
  absl::flat_hash_map<std::pair<int, int>, int> pairs_;
};

}  // namespace paceline::ring
