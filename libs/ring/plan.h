#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.h"

// The input of the planner (planner.h), and its output.

namespace paceline::ring {

// The holders of one segment.
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
  // Of a move by load: the shard that gives up to `to` what the segment asks of it.
  std::optional<ShardId> relieves = {};

  friend bool operator==(const Move&, const Move&) = default;
};

// "recruit shard 3 for segment 17 of shard 1", for logs and tests.
std::string ToString(const Move& move);

// The planner's view of a shard.
struct ShardState {
  enum class Takes {
    kAll,
    kReplicas,  // no primaries, and none are taken from it: it is being emptied of them
    kNothing,   // it is silent, or ends; its copies are not evened out with others
    kDrains,    // it lives, gets nothing, and all it has moves to others
  };

  ShardId shard;
  std::string zone = {};  // failure domain; empty: unknown, taken for different from every other
  Takes takes = Takes::kAll;
};

// The planner's view of a segment.
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
  // -- for moves by load --
  double traffic = 0;  // what clients ask of its primary, in any unit
  double bytes = 0;    // memory that a copy takes
  bool rests = false;  // it has moved by load a short time ago, and does not again
  // It moves by load, or has: if it has a member too many it is this one, and meanwhile it counts as gone.
  std::optional<ShardId> relieves = {};
};

struct PlanInput {
  std::vector<SegmentState> segments;  // 2^k, segment i from i * 2^(64 - k) on
  std::vector<ShardState> shards;      // distinct, in any order; with all members of the segments
  uint32_t replicas = 0;               // wanted of each segment beside its primary
  // Recruits and hand-overs under way at a time: of the segments of one primary, and to one shard. 0: none.
  uint32_t moves_per_shard = 0;
  bool by_load = false;  // step 7 too
};

struct Round {
  std::vector<Move> moves;  // to be begun now, at most one a segment, none where one is under way
  Assignment wanted;        // once these, those under way, and the drops that follow recruits, are done
};

// Points on the circle, per shard, by which the planner breaks ties.
inline constexpr int kVirtualNodes = 64;

}  // namespace paceline::ring
