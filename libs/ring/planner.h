#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.h"

// Who should hold what. A pure function: it knows no incarnations, no epochs and no time, and the same
// arguments give the same answer in every process. It says what to do next, and is asked again when that is
// done, or anything else has changed; it remembers nothing.

namespace paceline::ring {

// Who holds one segment.
struct Owners {
  ShardId primary;
  std::vector<ShardId> replicas;

  friend bool operator==(const Owners&, const Owners&) = default;
};

// assignment[i] are the owners of segment i.
using Assignment = std::vector<Owners>;

// One step that changes one segment's configuration.
struct Move {
  enum class Kind {
    kRecruit,   // `to` becomes a learner and then a replica: all of the segment's data is copied
    kHandOver,  // `to`, a replica, becomes primary, and the primary a replica: no data moves
    kDrop,      // `to`, a replica, leaves
  };

  Kind kind = Kind::kRecruit;
  SegmentId segment;
  ShardId primary;  // that the segment has before
  ShardId to;

  friend bool operator==(const Move&, const Move&) = default;
};

// "recruit shard 3 for segment 17 of shard 1", for logs and tests.
std::string ToString(const Move& move);

// What the planner sees of a shard.
struct Candidate {
  enum class Takes {
    kAll,
    kReplicas,  // no primaries, and none are taken from it: it is being emptied of them
    kNothing,   // it is silent, or ends; what it has is not evened out with others
  };

  ShardId shard;
  std::string zone = {};  // failure domain; empty: unknown, taken for different from every other
  Takes takes = Takes::kAll;
};

// What the planner sees of a segment.
struct SegmentState {
  enum class Condition {
    kSound,    // all members live
    kDamaged,  // its primary lives, some replica does not: it may recruit
    kHeld,     // its primary does not live, or is being replaced: it is left alone
  };

  std::vector<ShardId> members = {};  // the primary first; none: it begins where the plan says
  std::optional<Move> under_way = {};
  Condition condition = Condition::kSound;
  std::vector<ShardId> avoid = {};  // shards whose recruiting failed: the last ones to be recruited
  uint32_t load = 1;                // what a copy of it, or being its primary, weighs; at least 1
};

struct PlanInput {
  std::vector<SegmentState> segments;  // 2^k, segment i from i * 2^(64 - k) on
  std::vector<Candidate> shards;       // distinct, in any order; with all members of the segments
  uint32_t replicas = 0;               // wanted of each segment beside its primary
  // Recruits and hand-overs under way at a time: of the segments of one primary, and to one shard.
  uint32_t moves_per_shard = 8;
};

struct Round {
  std::vector<Move> moves;  // to be begun now, at most one a segment, none where one is under way
  Assignment wanted;        // once these, those under way, and the drops that follow recruits, are done
};

// The next moves.
//
//   1. Segments without members get as many as are wanted, at once.
//   2. Segments with too few members, or none that stays, recruit; those with fewest come first.
//   3. Segments with too many members, as after a recruit in place of somebody, drop one.
//   4. A replica that shares a zone with other members is replaced where another zone has fewer of them.
//   5. Shards that hold much are relieved of replicas: one that holds less is recruited in place.
//   6. Shards that are primary of much hand some over to replicas, directly or along a chain of shards, each
//      of which hands one on.
//
// 3 to 6 wait until all segments are sound and complete: a shard that is silent for a while moves nothing.
//
// Promises; planner_property_test.cc has one test or more of each. At rest means that nothing is under way
// and nothing is planned.
//
//   Loads      At rest each shard that takes all holds the mean number of copies and is primary of the mean
//              number of segments, both rounded up or down; given that loads are even and zones do not
//              interfere. With other loads, or zones, two shards differ by no more than the load of any
//              replica that the one could have instead of the other, and likewise of any primary.
//   Zones      At rest as few pairs of a segment's members as possible, its primary given, share a zone.
//   Few moves  Nothing moves at rest, and a new cluster is at rest. From any start without missing or surplus
//              members, loads being even and zones aside, no more copies are made until there is rest than
//              any way there takes, whatever moves_per_shard is and in whatever order moves end. A new shard
//              gets its share, and nobody else gets anything. What a shard leaves behind is copied once;
//              since no repair waits for a shard that is busy, a few more copies may even loads out after it.
//   Safety     Only replicas beyond those wanted are dropped, and never the primary.
//   Bounds     moves_per_shard holds with what is under way. Drops, which cost nothing, are not counted.
//   An end     A replacement lessens the pairs that share a zone, or, these being equal, the sum of the
//              squares of the shards' loads; a chain lessens that of their loads as primaries. Loads being
//              even, no later round takes that back, so there is rest after finitely many moves.
//   Ties       are broken by the ring: each shard has kVirtualNodes points on the circle at Mix64(shard, 0),
//              Mix64(shard, 1) …, and the one that comes first clockwise from a segment's start is preferred.
//              The order of shards and of replicas does not matter.
//
// O(segments * replicas * shards) a move; O(segments * replicas) at rest, zones aside.
Round PlanRound(const PlanInput& input);

inline constexpr int kVirtualNodes = 64;

}  // namespace paceline::ring
