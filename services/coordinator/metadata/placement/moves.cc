// Recruits replicas, spreads primaries, drops surplus replicas.
#include "services/coordinator/metadata/placement/moves.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/config_wishes.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(100);
constexpr absl::Duration kPlanAgain = absl::Milliseconds(250);
// A shard that accepted a move reports its end by a wish. It is asked again in case it forgot, or never got
// the call.
constexpr absl::Duration kAskMovesEvery = absl::Seconds(1);
constexpr absl::Duration kAskRefused = absl::Milliseconds(200);
// A learner that got no bytes for so long is given up, so that another shard can be tried; and so is a
// hand-over that takes so long.
constexpr absl::Duration kRecruitPatience = absl::Minutes(1);
constexpr absl::Duration kHandOverPatience = absl::Seconds(10);
constexpr absl::Duration kLeavingMax = absl::Minutes(10);

// True if the shard should get nothing: it could not keep it, or is about to be removed and refuses it.
bool Useless(const Membership& membership, uint32_t shard) {
  return membership.DiskUseless(shard) || membership.Emptied(shard);
}

}  // namespace

const v1::SegmentConfig& Moves::ConfigOf(uint32_t segment) const {
  return context_.facts.map()->segments(static_cast<int>(segment));
}

std::map<uint32_t, MemberMove> Moves::MovesUnderWay() const {
  std::map<uint32_t, MemberMove> moves;
  for (const auto& [segment, one] : under_way_) moves[segment] = one.move;
  return moves;
}

void Moves::Pump() {
  if (context_.facts.map() == nullptr) return;
  Forget();
  PumpRequests();
  next_look_ = context_.now + kLookAgain;
  Plan();
  Ask();
}

absl::Time Moves::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [segment, one] : under_way_) next = std::min(next, one.next_ask);
  return requests_.empty() ? next : std::min(next, next_look_);
}

void Moves::StopAll() {
  under_way_.clear();
  requests_.clear();
}

// -- the plan --

void Moves::Forget() {
  std::erase_if(under_way_, [this](const auto& entry) { return Ended(entry.second); });
  std::erase_if(leaving_, [this](const auto& entry) {
    const ShardRecord* known = context_.facts.FindShard(entry.first);
    if (known == nullptr) return true;  // the shard was removed
    const v1::ShardInfo& info = known->info();
    return info.incarnation() != entry.second.incarnation || context_.now - entry.second.since > kLeavingMax;
  });
  std::erase_if(expected_, [this](const auto& entry) {
    const ShardRecord* known = context_.facts.FindShard(entry.first);
    return known == nullptr || known->info().incarnation() != entry.second.incarnation ||
           membership_.Silence(entry.first) > kBackWithin || context_.now - entry.second.since > kLeavingMax;
  });
}

void Moves::ExpectBack(uint32_t shard) {
  const ShardRecord* known = context_.facts.FindShard(shard);
  // Without a folder it comes back with nothing, and would be copied to in any case.
  if (known == nullptr || !known->keeps_data() || context_.facts.map() == nullptr) return;
  expected_[shard] = {.incarnation = known->info().incarnation(),
                      .since = context_.now,
                      .segments = SegmentsOf(*context_.facts.map(), shard)};
}

bool Moves::AwaitsReturn(uint32_t segment) const {
  const v1::SegmentConfig& config = ConfigOf(segment);
  if (static_cast<uint32_t>(config.replicas_size()) + 1 != context_.options.replicas) return false;
  // A primary that is about to end needs somebody to hand over to.
  if (leaving_.contains(config.primary().shard())) return false;
  return std::ranges::any_of(expected_, [&](const auto& entry) {
    v1::Member member;
    member.set_shard(entry.first);
    member.set_incarnation(entry.second.incarnation);
    return entry.second.segments.contains(segment) && !Same(config.primary(), member) &&
           !HasReplica(config, member);
  });
}

bool Moves::Ended(const UnderWay& one) {
  const MemberMove& move = one.move;
  const v1::SegmentConfig& config = ConfigOf(move.segment);
  const std::pair<uint32_t, uint32_t> pair(move.segment, move.to.shard());
  const auto leaving = leaving_.find(move.to.shard());
  if (leaving != leaving_.end() && leaving->second.ends) return true;
  if (Useless(membership_, move.to.shard())) return true;
  if (!Same(config.primary(), move.primary) || !membership_.Alive(move.to)) return true;
  if (move.kind == MemberMove::Kind::kHandOver) {
    return !HasReplica(config, move.to) || context_.now - one.since > kHandOverPatience;
  }
  if (HasReplica(config, move.to)) {
    failed_.erase(pair);
    return true;
  }
  if (context_.now - std::max(one.since, one.moved_at) <= kRecruitPatience) return false;
  failed_.insert(pair);
  return true;
}

void Moves::Plan() {
  const Facts& facts = context_.facts;
  if (planned_map_ == facts.map_version() && next_plan_ > context_.now) return;
  planned_map_ = facts.map_version();
  next_plan_ = context_.now + kPlanAgain;
  loads_.Look([this](uint32_t segment) { return IsMoving(segment); });
  const std::shared_ptr<const v1::Map> map = facts.map();  // the inputs refer to it
  const std::vector<MemberMove> moves = PlanMoves(Inputs());
  for (const MemberMove& move : moves) {
    if (move.kind == MemberMove::Kind::kDrop) continue;
    under_way_[move.segment] = {.move = move, .since = context_.now};
    if (move.relieves.has_value()) loads_.OnMove(move);
  }
  if (!moves.empty()) CountCopiesLeft();
  CommitDrops(moves);
}

// The map of the facts outlives the inputs, as far as no commit comes between.
MoveInputs Moves::Inputs() const {
  const Facts& facts = context_.facts;
  MoveInputs inputs{.map = *facts.map(),
                    .replicas = context_.options.replicas,
                    .held = promotions_.UnderWay(),
                    .under_way = MovesUnderWay(),
                    .failed = failed_,
                    .moves_per_shard = context_.options.moves_per_shard,
                    .load = loads_.Inputs()};
  for (const auto& [id, shard] : facts.shards()) {
    if (membership_.Alive(id)) inputs.alive.insert(id);
    if (shard.draining()) {
      inputs.draining.insert(id);
    } else if (Useless(membership_, id)) {
      inputs.leaving.insert(id);
      inputs.ending.insert(id);
    }
  }
  for (const auto& [id, leaving] : leaving_) {
    inputs.leaving.insert(id);
    if (leaving.ends) inputs.ending.insert(id);
  }
  for (uint32_t s = 0; !expected_.empty() && s < facts.SegmentCount(); ++s) {
    if (AwaitsReturn(s)) inputs.held.insert(s);
  }
  return inputs;
}

void Moves::CommitDrops(const std::vector<MemberMove>& moves) {
  const MemberFacts facts = FactsOf(membership_);
  v1::Map map = *context_.facts.map();
  bool some = false;
  for (const MemberMove& move : moves) {
    const bool early = move.kind == MemberMove::Kind::kHandOver && Planted(Bug::kDroppedBeforeSwap);
    if (move.kind != MemberMove::Kind::kDrop && !early) continue;
    v1::SegmentConfig& config = *map.mutable_segments(static_cast<int>(move.segment));
    some |= DropAsPlanned(config, early ? move.primary : move.to, context_.options.replicas, facts).ok();
  }
  // Until then the store may be an older one; they are planned again.
  if (!some || !membership_.CheckMayMakeMaps().ok()) return;
  if (membership_.CommitMap(std::move(map)).ok()) on_map_();
}

// -- asking --

void Moves::Ask() {
  // A primary that is asked to hand over sends no answers before its wish is granted.
  const bool may_hand_over = membership_.CheckMayMakeMaps().ok();
  std::map<uint32_t, std::vector<MemberMove>> recruits;
  std::map<uint32_t, std::vector<MemberMove>> hand_overs;
  for (auto& [segment, one] : under_way_) {
    const bool recruit = one.move.kind == MemberMove::Kind::kRecruit;
    if (one.next_ask > context_.now) continue;
    one.next_ask = context_.now + (recruit || may_hand_over ? kAskMovesEvery : kLookAgain);
    if (!recruit && !may_hand_over) continue;
    auto& calls = recruit ? recruits : hand_overs;
    calls[one.move.primary.shard()].push_back(one.move);
  }
  for (const auto& [shard, moves] : recruits) SendRecruits(shard, moves);
  for (const auto& [shard, moves] : hand_overs) SendHandOvers(shard, moves);
}

void Moves::SendRecruits(uint32_t shard, const std::vector<MemberMove>& moves) {
  v1::RecruitRequest request;
  request.set_cluster(context_.facts.cluster());
  *request.mutable_target() = moves.front().primary;
  for (const MemberMove& move : moves) {
    v1::RecruitRequest::Segment& segment = *request.add_segments();
    segment.set_segment(move.segment);
    segment.set_epoch(ConfigOf(move.segment).epoch());
    *segment.mutable_learner() = move.to;
  }
  CallShard(context_, context_.facts.FindShard(shard)->info(), &ShardCaller::Recruit, std::move(request),
            [this, shard, moves](const absl::StatusOr<v1::RecruitReply>& reply) {
              std::set<uint32_t> taken;
              if (reply.ok()) taken.insert(reply->taken().begin(), reply->taken().end());
              OnAsked(shard, moves, reply.status(), taken);
            });
}

void Moves::SendHandOvers(uint32_t shard, const std::vector<MemberMove>& moves) {
  v1::HandOverRequest request;
  request.set_cluster(context_.facts.cluster());
  *request.mutable_target() = moves.front().primary;
  for (const MemberMove& move : moves) {
    v1::HandOverRequest::Segment& segment = *request.add_segments();
    segment.set_segment(move.segment);
    segment.set_epoch(ConfigOf(move.segment).epoch());
    *segment.mutable_to() = move.to;
  }
  CallShard(context_, context_.facts.FindShard(shard)->info(), &ShardCaller::HandOver, std::move(request),
            [this, shard, moves](const absl::StatusOr<v1::HandOverReply>& reply) {
              std::set<uint32_t> begun;
              if (reply.ok()) begun.insert(reply->begun().begin(), reply->begun().end());
              OnAsked(shard, moves, reply.status(), begun);
            });
}

void Moves::OnAsked(uint32_t shard, const std::vector<MemberMove>& moves, const absl::Status& status,
                    const std::set<uint32_t>& accepted) {
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (!status.ok() && known != nullptr) {
    context_.probe.CallRepeated(known->info(), absl::StrCat("a move: ", status.ToString()));
  }
  for (const MemberMove& move : moves) {
    const auto it = under_way_.find(move.segment);
    if (it == under_way_.end() || accepted.contains(move.segment)) continue;
    // Usually the shard still waits for a map.
    it->second.next_ask = std::min(it->second.next_ask, context_.now + kAskRefused);
  }
}

}  // namespace paceline::coordinator
