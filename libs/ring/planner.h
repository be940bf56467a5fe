#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/segment_map.h"

// Who should serve what. Pure functions: they know no incarnations, no epochs and no time, and the same
// arguments give the same answer in every process. What they wish for is carried out step by step elsewhere,
// and they may be asked again at any point on the way: they go on from where things stand.

namespace paceline::ring {

// Who holds one segment.
struct Owners {
  ShardId primary;
  std::vector<ShardId> replicas;

  friend bool operator==(const Owners&, const Owners&) = default;
};

// assignment[i] are the owners of segment i.
using Assignment = std::vector<Owners>;

// The assignment a map describes, members' incarnations left out.
Assignment AssignmentOf(const SegmentMap& map);

// A shard that may own segments.
struct Candidate {
  ShardId shard;
  std::string zone;  // failure domain; empty: unknown, taken for different from every other
};

// Distributes 2^ring_bits segments, S in what follows, over `candidates`, N of them. Every segment gets one
// primary and min(replicas, N - 1) replicas.
//
//   previous    how things stand, which is kept as far as the promises below allow; nullopt: a new cluster.
//               Shards in it that are no candidates are gone or are to leave.
//   candidates  in any order
//   replicas    wanted beside the primary, ≥ 0
//
// Promises, the first before the later ones where they compete:
//   1. The members of a segment are distinct candidates, and as few pairs of them as possible, its primary
//      given, share a zone. (A zone of one shard beside large ones gets a replica of nearly all they have.)
//   2. Every candidate is primary of floor(S/N) or ceil(S/N) segments.
//   3. As few primaries move as 2 allows. So if `previous` was balanced in the sense of 2 — as every result
//      of this function is — then a primary moves only away from a shard that leaves or towards one that
//      joins, never between two that stay; one shard more means at most ceil(S/(N+1)) moves.
//   4. Where something must move, what a replica of the segment with room can take over moves first and goes
//      there, without a copy.
//   5. Replicas stay where they are but for 1, and a primary that moved stays as a replica where there is a
//      place. A place that is free goes to the candidate with the fewest replicas; and who has at least two
//      fewer than another takes one over, unless it holds all of the other's segments already or 1 forbids
//      it. Unless zones interfere, a new cluster has at most ceil(S * r / (N - r)) replicas on a shard, r
//      being min(replicas, N - 1); usually all have the mean, rounded up or down.
//   6. What is still open is decided by the ring: each shard has kVirtualNodes points on the circle at
//      Mix64(shard, 0), Mix64(shard, 1) …, and the one that comes first clockwise from a segment's start is
//      preferred.
//
// kInvalidArgument: no candidates, two of one id, ring_bits outside 0 .. kRingBitsMax, replicas < 0, or a
// `previous` that has not S entries. O(S * N) steps.
absl::StatusOr<Assignment> Assign(const std::optional<Assignment>& previous,
                                  absl::Span<const Candidate> candidates, int replicas, int ring_bits);

inline constexpr int kVirtualNodes = 64;

// One step that changes one segment's configuration.
struct Move {
  enum class Kind {
    kRecruit,   // `to` becomes a learner and then a replica: all of the segment's data is copied
    kHandOver,  // `from`, the primary, and `to`, a replica, change roles: no data moves
    kDrop,      // `from`, a replica, leaves
  };

  Kind kind = Kind::kRecruit;
  SegmentId segment;
  ShardId from;  // kRecruit: the primary that sends
  ShardId to;    // kDrop: the same as `from`

  friend bool operator==(const Move&, const Move&) = default;
};

// "recruit shard 3 for segment 17 from shard 1", for logs and tools.
std::string ToString(const Move& move);

// The shortest list of moves that leads from one assignment to the other: one recruit per shard that is new
// to a segment, one hand-over where the primary changes, one drop per shard that leaves the segment. Ordered
// by segment; within one, recruits come before the hand-over and drops after it, so that carrying out any
// prefix leaves every segment with a primary and no fewer members than in the smaller of the two assignments.
// Whether those named live is not known here: the segments of a dead primary are given to a replica first.
//
// REQUIRES: from.size() == to.size(). O(S).
std::vector<Move> PlanMoves(const Assignment& from, const Assignment& to);

}  // namespace paceline::ring
