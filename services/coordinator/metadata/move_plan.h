#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "libs/ring/planner.h"
#include "paceline/v1/types.pb.h"

namespace paceline::coordinator {

// A step of the plan, with the starts of shards that it concerns.
struct Move {
  using Kind = ring::Move::Kind;

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

// The next steps (ring/planner.h), of a map whose members are starts of shards: those that are not the newest
// one of their shard do not live.
std::vector<Move> PlanMoves(const MoveInputs& inputs);

// How many segments each shard is primary of, once the hand-overs under way are done.
std::map<uint32_t, int> PrimariesAfter(const v1::Map& map, const std::map<uint32_t, Move>& under_way);

}  // namespace paceline::coordinator
