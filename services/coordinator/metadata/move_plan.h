#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// One step that changes who holds a segment.
struct Move {
  enum class Kind {
    kRecruit,   // `to` becomes a learner and then a replica: all of the segment is copied
    kHandOver,  // `to`, a replica, becomes primary: no data moves
    kDrop,      // `to`, a replica, leaves
  };
  Kind kind = Kind::kRecruit;
  uint32_t segment = 0;
  v1::Member primary;  // that the segment has now
  v1::Member to;
};

// What the plan is made from.
struct MoveInputs {
  const v1::Map& map;
  uint32_t replicas = 0;          // wanted of each segment
  std::set<uint32_t> alive = {};  // shards whose newest start has been heard of recently
  // Shards that are to have no primaries: none are handed to them, nor taken from them by this plan.
  std::set<uint32_t> leaving = {};
  // Shards that are to have no replicas either, as they end.
  std::set<uint32_t> ending = {};
  std::set<uint32_t> held = {};             // segments that are left alone, as a takeover is under way
  std::map<uint32_t, Move> under_way = {};  // by segment
  std::set<std::pair<uint32_t, uint32_t>> failed = {};  // (segment, shard): recruits to try last
  uint32_t moves_per_shard = 8;  // under way at a time: of one primary, and to one shard
};

// The next steps, at most one a segment, and none in segments that have one under way. They may be asked for
// again at any point: they go on from where things stand. Pure; O(segments × replicas × shards) a step.
//
// 1. A segment whose primary lives recruits the shard with the fewest segments, in another zone where there
// is
//    one, if it has fewer replicas than wanted, and than other shards live; or if all its members end.
// 2. Once no segment lacks any, and all members live: while a shard holds at least two segments more than
// another,
//    that one is recruited in place of it. A segment that has more replicas than wanted, and has had no
//    reason to wait, drops the one whose shard holds most.
// 3. Likewise, while a shard is primary of at least two segments more than one of its replicas' shards, it
// hands
//    one over.
// Each pair of a recruit and a drop, and each hand-over, makes the sum of the squares of the loads smaller,
// so that the plan comes to an end.
std::vector<Move> PlanMoves(const MoveInputs& inputs);

// How many segments each shard is primary of, once the hand-overs under way are done.
std::map<uint32_t, int> PrimariesAfter(const v1::Map& map, const std::map<uint32_t, Move>& under_way);

}  // namespace paceline::coordinator
