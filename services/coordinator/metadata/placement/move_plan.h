#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "libs/ring/planner.h"
#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// A step of the plan, with the starts of shards that it concerns.
struct MemberMove {
  using Kind = ring::Move::Kind;

  Kind kind = Kind::kRecruit;
  uint32_t segment = 0;
  v1::Member primary;  // the segment's present primary
  v1::Member to;
  std::optional<uint32_t> relieves = {};  // of a move by load: the shard that gives the segment up
};

// What is known of load, for the plan.
struct LoadInputs {
  struct Of {
    double traffic = 0;  // rows a second
    double bytes = 0;
  };
  bool moves = false;  // segments may move by load
  std::map<uint32_t, Of> segments = {};
  std::set<uint32_t> resting = {};
  std::map<uint32_t, uint32_t> relieves = {};  // by segment: the shard that it moves away from, or has
};

// The input of the plan.
struct MoveInputs {
  const v1::Map& map;
  uint32_t replicas = 0;          // wanted of each segment
  std::set<uint32_t> alive = {};  // shards whose newest start has been heard of recently
  // Shards that should have no primaries: this plan hands none to them, nor takes any from them.
  std::set<uint32_t> leaving = {};
  // Shards that are about to end, and should have no replicas either.
  std::set<uint32_t> ending = {};
  std::set<uint32_t> draining = {};                     // shards from which everything moves away
  std::set<uint32_t> held = {};                         // segments to leave alone
  std::map<uint32_t, MemberMove> under_way = {};        // by segment
  std::set<std::pair<uint32_t, uint32_t>> failed = {};  // (segment, shard): recruits to try last
  uint32_t moves_per_shard = 0;  // moves under way at a time, from one primary and to one shard
  LoadInputs load = {};
};

// The next steps (ring/planner.h), of a map whose members are starts of shards: those that are not the newest
// one of their shard do not live.
std::vector<MemberMove> PlanMoves(const MoveInputs& inputs);

// How many segments each shard will be primary of once the hand-overs under way are done.
std::map<uint32_t, int> PrimariesAfter(const v1::Map& map, const std::map<uint32_t, MemberMove>& under_way);

}  // namespace paceline::coordinator
