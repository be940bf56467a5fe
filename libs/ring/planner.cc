#include "libs/ring/planner.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/assign_primaries.h"
#include "libs/ring/assign_replicas.h"
#include "libs/ring/placement.h"
#include "libs/ring/roster.h"

namespace paceline::ring {
namespace {

bool Contains(const Owners& owners, ShardId shard) {
  return owners.primary == shard ||
         std::find(owners.replicas.begin(), owners.replicas.end(), shard) != owners.replicas.end();
}

// Members of `a` that are not in `b`, ascending.
std::vector<ShardId> Without(const Owners& a, const Owners& b) {
  std::vector<ShardId> left;
  if (!Contains(b, a.primary)) {
    left.push_back(a.primary);
  }
  for (ShardId shard : a.replicas) {
    if (!Contains(b, shard)) {
      left.push_back(shard);
    }
  }
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace

Assignment AssignmentOf(const SegmentMap& map) {
  Assignment assignment(map.SegmentCount());
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    const absl::Span<const Member> members = map.Members(SegmentId(s));
    assignment[s].primary = members.front().shard;
    for (const Member& replica : members.subspan(1)) {
      assignment[s].replicas.push_back(replica.shard);
    }
  }
  return assignment;
}

absl::StatusOr<Assignment> Assign(const std::optional<Assignment>& previous,
                                  absl::Span<const Candidate> candidates, int replicas, int ring_bits) {
  if (ring_bits < 0 || ring_bits > kRingBitsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment: ring_bits is ", ring_bits, "; expected 0 to ", kRingBitsMax));
  }
  if (replicas < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment: ", replicas, " replicas wanted; expected 0 or more"));
  }
  const uint32_t segments = uint32_t{1} << ring_bits;
  if (previous.has_value() && previous->size() != segments) {
    return absl::InvalidArgumentError(absl::StrCat("assignment: the previous one has ", previous->size(),
                                                   " segments; expected ", segments, " for ring_bits ",
                                                   ring_bits, ", which never changes"));
  }
  ABSL_ASSIGN_OR_RETURN(const Roster roster, Roster::Create(candidates, ring_bits));
  const Assignment* before = previous.has_value() ? &*previous : nullptr;
  const std::vector<int> primaries = AssignPrimaries(roster, before, segments);
  const std::vector<std::vector<int>> others =
      AssignReplicas(roster, before, primaries, std::min(replicas, roster.size() - 1));
  Assignment assignment(segments);
  for (uint32_t s = 0; s < segments; ++s) {
    assignment[s].primary = roster.IdOf(primaries[s]);
    for (int i : others[s]) {
      assignment[s].replicas.push_back(roster.IdOf(i));
    }
  }
  return assignment;
}

std::string ToString(const Move& move) {
  switch (move.kind) {
    case Move::Kind::kRecruit:
      return absl::StrCat("recruit shard ", move.to.v, " for segment ", move.segment.v, " from shard ",
                          move.from.v);
    case Move::Kind::kHandOver:
      return absl::StrCat("hand segment ", move.segment.v, " over from shard ", move.from.v, " to shard ",
                          move.to.v);
    case Move::Kind::kDrop:
      return absl::StrCat("drop shard ", move.from.v, " from segment ", move.segment.v);
  }
  return "unknown move";
}

std::vector<Move> PlanMoves(const Assignment& from, const Assignment& to) {
  std::vector<Move> moves;
  for (uint32_t s = 0; s < from.size(); ++s) {
    const SegmentId segment(s);
    const ShardId primary = from[s].primary;
    for (ShardId shard : Without(to[s], from[s])) {
      moves.push_back({Move::Kind::kRecruit, segment, primary, shard});
    }
    if (to[s].primary != primary) {
      moves.push_back({Move::Kind::kHandOver, segment, primary, to[s].primary});
    }
    for (ShardId shard : Without(from[s], to[s])) {
      moves.push_back({Move::Kind::kDrop, segment, shard, shard});
    }
  }
  return moves;
}

}  // namespace paceline::ring
