#pragma once

#include "libs/ring/plan.h"

// Decides which shard should hold which segment. A pure function: it knows no incarnations, no epochs and no
// time, and the same arguments give the same answer in every process. It names the next moves. The caller
// asks again when these are done, or when anything else has changed; the planner remembers nothing.

namespace paceline::ring {

// The next moves.
//
//   1. Segments without members get as many as are wanted, at once.
//   2. Segments with too few members, or none that stays, recruit; those with fewest come first.
//   3. Segments with too many members, as after a recruit in place of another, drop one. If that one is the
//      primary, it first hands over. So move the segments of shards that drain; and, if no replicas are
//      wanted, all segments. Members that drain are replaced.
//   4. A replica that shares a zone with other members is replaced where another zone has fewer of them.
//   5. Shards that hold much are relieved of replicas: one that holds less is recruited in place.
//   6. Shards that are primary of much hand some over to replicas, directly or along a chain of shards, each
//      of which hands one on.
//   7. Shards of which clients ask much exchange segments, as primaries or with their data, with shards of
//      which they ask less (relief.h).
//
// 3 to 7 wait until all segments are sound and complete: a shard that is silent for a while moves nothing.
// But a shard that drains does not wait for other segments than its own. 7 waits until there is rest
// otherwise, and no shard drains or leaves.
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
//              gets its share, and no other shard gets any. Each copy of a shard that leaves is made
//              elsewhere once; since no repair waits for a shard that is busy, a few more copies may even
//              loads out after it. So is each copy of a shard that drains.
//   Drains     At rest a shard that drains has nothing, given that replicas + 1 shards take all.
//   Safety     Only replicas beyond those wanted are dropped, and never the primary.
//   Bounds     moves_per_shard holds with what is under way. Drops, which cost nothing, are not counted.
//   An end     A replacement lessens the pairs that share a zone, or, these being equal, the sum of the
//              squares of the shards' loads; a chain lessens that of their loads as primaries. Loads being
//              even, no later round takes that back, so there is rest after finitely many moves.
//   By load    Step 7 changes no shard's number of copies or primaries, but where it may be one more or
//              less. Each exchange lessens the sum of the squares of traffic and bytes, in means of all
//              shards, by a margin: these staying the same, there is rest after finitely many. Segments that
//              rest do not move.
//   Ties       are broken by the ring: each shard has kVirtualNodes points on the circle at Mix64(shard, 0),
//              Mix64(shard, 1) …, and the one that comes first clockwise from a segment's start is preferred.
//              The order of shards and of replicas does not matter.
//
// O(segments * (replicas + 1) * shards) a move; O(segments * replicas) at rest, zones aside.
Round PlanRound(const PlanInput& input);

}  // namespace paceline::ring
