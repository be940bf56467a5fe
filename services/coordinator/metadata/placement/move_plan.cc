#include "services/coordinator/metadata/placement/move_plan.h"

#include <algorithm>

#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

using ring::SegmentState;
using ring::ShardState;

SegmentState::Condition ConditionOf(const MoveInputs& inputs, const std::map<uint32_t, uint64_t>& newest,
                                    uint32_t segment) {
  const v1::SegmentConfig& config = inputs.map.segments(static_cast<int>(segment));
  const auto lives = [&](const v1::Member& member) {
    const auto it = newest.find(member.shard());
    return it != newest.end() && it->second == member.incarnation() && inputs.alive.contains(member.shard());
  };
  if (inputs.held.contains(segment) || !lives(config.primary())) return SegmentState::Condition::kHeld;
  return std::ranges::all_of(config.replicas(), lives) ? SegmentState::Condition::kSound
                                                       : SegmentState::Condition::kDamaged;
}

ring::PlanInput InputOf(const MoveInputs& inputs, const std::map<uint32_t, uint64_t>& newest) {
  ring::PlanInput input{
      .segments = {}, .shards = {}, .replicas = inputs.replicas, .moves_per_shard = inputs.moves_per_shard};
  for (const v1::ShardInfo& info : inputs.map.shards()) {
    const uint32_t id = info.shard();
    auto takes = ShardState::Takes::kAll;
    if (inputs.leaving.contains(id)) takes = ShardState::Takes::kReplicas;
    if (inputs.draining.contains(id)) takes = ShardState::Takes::kDrains;
    if (inputs.ending.contains(id) || !inputs.alive.contains(id)) takes = ShardState::Takes::kNothing;
    input.shards.push_back({.shard = ShardId(id), .zone = info.zone(), .takes = takes});
  }
  for (const v1::SegmentConfig& config : inputs.map.segments()) {
    const auto segment = static_cast<uint32_t>(input.segments.size());
    SegmentState& state = input.segments.emplace_back();
    state.members.push_back(ShardId(config.primary().shard()));
    for (const v1::Member& replica : config.replicas()) state.members.push_back(ShardId(replica.shard()));
    state.condition = ConditionOf(inputs, newest, segment);
  }
  for (const auto& [segment, move] : inputs.under_way) {
    input.segments[segment].under_way = {.kind = move.kind,
                                         .segment = SegmentId(segment),
                                         .primary = ShardId(move.primary.shard()),
                                         .to = ShardId(move.to.shard())};
  }
  input.by_load = inputs.load.moves;
  for (const auto& [segment, load] : inputs.load.segments) {
    input.segments[segment].traffic = load.traffic;
    input.segments[segment].bytes = load.bytes;
  }
  for (const uint32_t segment : inputs.load.resting) input.segments[segment].rests = true;
  for (const auto& [segment, shard] : inputs.load.relieves) input.segments[segment].relieves = ShardId(shard);
  for (const auto& [segment, shard] : inputs.failed) input.segments[segment].avoid.push_back(ShardId(shard));
  return input;
}

}  // namespace

std::map<uint32_t, int> PrimariesAfter(const v1::Map& map, const std::map<uint32_t, MemberMove>& under_way) {
  std::map<uint32_t, int> primaries;
  for (const v1::SegmentConfig& config : map.segments()) primaries[config.primary().shard()] += 1;
  for (const auto& [segment, move] : under_way) {
    if (move.kind != MemberMove::Kind::kHandOver) continue;
    primaries[move.primary.shard()] -= 1;
    primaries[move.to.shard()] += 1;
  }
  return primaries;
}

std::vector<MemberMove> PlanMoves(const MoveInputs& inputs) {
  const std::map<uint32_t, uint64_t> newest = NewestStarts(inputs.map);
  std::vector<MemberMove> moves;
  for (const ring::Move& planned : ring::PlanRound(InputOf(inputs, newest)).moves) {
    MemberMove& move = moves.emplace_back();
    move.kind = planned.kind;
    move.segment = planned.segment.v;
    move.primary = inputs.map.segments(static_cast<int>(move.segment)).primary();
    move.to.set_shard(planned.to.v);
    move.to.set_incarnation(newest.at(planned.to.v));
    if (planned.relieves.has_value()) move.relieves = planned.relieves->v;
  }
  return moves;
}

}  // namespace paceline::coordinator
