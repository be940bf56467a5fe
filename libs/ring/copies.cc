#include "libs/ring/copies.h"

#include <algorithm>

namespace paceline::ring {

Copies::Copies(const PlanInput& input, const Roster& roster)
    : input_(input),
      roster_(roster),
      primaries_(input.segments.size(), kNone),
      replicas_(input.segments.size()),
      loads_(roster.size(), 0),
      primary_loads_(roster.size(), 0),
      replica_of_(roster.size()) {
  for (uint32_t s = 0; s < count(); ++s) {
    const SegmentState& state = input.segments[s];
    for (ShardId member : state.members) Add(s, roster.IndexOf(member));
    if (!state.under_way.has_value()) continue;
    const int to = roster.IndexOf(state.under_way->to);
    Apply(state.under_way->kind, s, to);
    const bool replaces = state.under_way->kind == Move::Kind::kRecruit && state.relieves.has_value() &&
                          state.members.size() > input.replicas &&
                          std::ranges::count(state.members, *state.relieves) > 0;
    if (replaces) Remove(s, roster.IndexOf(*state.relieves), to);
  }
}

size_t Copies::SizeOf(uint32_t segment) const {
  return (primaries_[segment] == kNone ? 0 : 1) + replicas_[segment].size();
}

bool Copies::Holds(uint32_t segment, int shard) const {
  return primaries_[segment] == shard || std::ranges::binary_search(replicas_[segment], shard);
}

int Copies::Conflicts(uint32_t segment, int shard, int without) const {
  const auto conflicts = [&](int member) {
    return member != kNone && member != without && member != shard && roster_.SameZone(member, shard);
  };
  return static_cast<int>(std::ranges::count_if(replicas_[segment], conflicts)) +
         (conflicts(primaries_[segment]) ? 1 : 0);
}

int Copies::Pairs(int primary, int replica) const {
  const auto it = pairs_.find({primary, replica});
  return it == pairs_.end() ? 0 : it->second;
}

void Copies::Apply(Move::Kind kind, uint32_t segment, int to) {
  switch (kind) {
    case Move::Kind::kRecruit:
      return Add(segment, to);
    case Move::Kind::kDrop:
      return Remove(segment, to);
    case Move::Kind::kHandOver:
      return Swap(segment, to);
  }
}

void Copies::Add(uint32_t segment, int shard) {
  loads_[shard] += WeightOf(segment);
  if (primaries_[segment] == kNone) {
    primaries_[segment] = shard;
    primary_loads_[shard] += WeightOf(segment);
    return;
  }
  std::vector<int>& replicas = replicas_[segment];
  replicas.insert(std::ranges::lower_bound(replicas, shard), shard);
  replica_of_[shard].push_back(segment);
  pairs_[{primaries_[segment], shard}] += 1;
}

void Copies::Remove(uint32_t segment, int replica) {
  loads_[replica] -= WeightOf(segment);
  std::erase(replicas_[segment], replica);
  std::erase(replica_of_[replica], segment);
  pairs_[{primaries_[segment], replica}] -= 1;
}

void Copies::Remove(uint32_t segment, int member, int heir) {
  if (primaries_[segment] == member) Swap(segment, heir);
  Remove(segment, member);
}

void Copies::Swap(uint32_t segment, int replica) {
  std::vector<int> members = replicas_[segment];
  for (int member : members) Remove(segment, member);
  const int from = primaries_[segment];
  primaries_[segment] = kNone;
  loads_[from] -= WeightOf(segment);
  primary_loads_[from] -= WeightOf(segment);
  Add(segment, replica);
  std::ranges::replace(members, replica, from);
  for (int member : members) Add(segment, member);
}

Assignment Copies::ToAssignment() const {
  Assignment assignment(count());
  for (uint32_t s = 0; s < count(); ++s) {
    if (primaries_[s] == kNone) continue;
    assignment[s].primary = roster_.IdOf(primaries_[s]);
    for (int replica : replicas_[s]) assignment[s].replicas.push_back(roster_.IdOf(replica));
  }
  return assignment;
}

}  // namespace paceline::ring
