#include "services/coordinator/metadata/move_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "services/coordinator/metadata/config_wishes.h"
#include "services/coordinator/metadata/map_plan.h"

namespace paceline::coordinator {
namespace {

bool HasShard(const v1::SegmentConfig& config, uint32_t shard) {
  return config.primary().shard() == shard ||
         std::ranges::any_of(config.replicas(), [shard](const auto& r) { return r.shard() == shard; });
}

class Plan {
 public:
  explicit Plan(const MoveInputs& inputs)
      : in_(inputs),
        newest_(NewestStarts(inputs.map)),
        primaries_(PrimariesAfter(inputs.map, inputs.under_way)) {
    for (const v1::ShardInfo& shard : in_.map.shards()) zones_[shard.shard()] = shard.zone();
    for (uint32_t s = 0; s < SegmentCount(); ++s) {
      const v1::SegmentConfig& config = Config(s);
      primary_of_[config.primary().shard()].push_back(s);
      loads_[config.primary().shard()] += 1;
      for (const v1::Member& replica : config.replicas()) {
        replica_of_[replica.shard()].push_back(s);
        pairs_[{config.primary().shard(), replica.shard()}] += 1;
        loads_[replica.shard()] += 1;
      }
    }
    for (const auto& [segment, move] : in_.under_way) Note(move);
    Anticipate();
  }

  std::vector<Move> Make() {
    if (!Recruits()) return std::move(moves_);
    Drops();
    EvenMembers();
    EvenPrimaries();
    return std::move(moves_);
  }

 private:
  const v1::SegmentConfig& Config(uint32_t segment) const {
    return in_.map.segments(static_cast<int>(segment));
  }
  uint32_t SegmentCount() const { return static_cast<uint32_t>(in_.map.segments_size()); }

  bool Lives(const v1::Member& member) const {
    const auto it = newest_.find(member.shard());
    return it != newest_.end() && it->second == member.incarnation() && in_.alive.contains(member.shard());
  }
  bool AllLive(const v1::SegmentConfig& config) const {
    return Lives(config.primary()) &&
           std::ranges::all_of(config.replicas(), [this](const auto& r) { return Lives(r); });
  }
  bool Free(uint32_t segment) const {
    return !in_.under_way.contains(segment) && !in_.held.contains(segment) && !taken_.contains(segment);
  }

  // Whether the bound lets the move begin.
  bool Room(uint32_t from, uint32_t to) {
    const auto most = static_cast<int>(in_.moves_per_shard);
    return from_[from] < most && to_[to] < most;
  }
  void Note(const Move& move) {
    from_[move.primary.shard()] += 1;
    to_[move.to.shard()] += 1;
    if (move.kind != Move::Kind::kRecruit) return;
    loads_[move.to.shard()] += 1;
    pairs_[{move.primary.shard(), move.to.shard()}] += 1;
  }
  void Begin(Move::Kind kind, uint32_t segment, uint32_t to) {
    Move move{.kind = kind, .segment = segment, .primary = Config(segment).primary(), .to = {}};
    move.to.set_shard(to);
    move.to.set_incarnation(newest_.at(to));
    taken_.insert(segment);
    Note(move);
    moves_.push_back(std::move(move));
  }

  // The replica to be dropped from a segment with too many: of a shard that ends, or else that holds most.
  std::optional<uint32_t> Fullest(const v1::SegmentConfig& config) {
    const auto rank = [this](uint32_t shard) {
      return std::tuple(in_.ending.contains(shard), loads_[shard], shard);
    };
    std::optional<uint32_t> fullest;
    for (const v1::Member& replica : config.replicas()) {
      if (!fullest || rank(replica.shard()) > rank(*fullest)) fullest = replica.shard();
    }
    return fullest;
  }

  // Recruits of shards beyond what is wanted are followed by drops, which count as done.
  void Anticipate() {
    for (const auto& [segment, move] : in_.under_way) {
      const v1::SegmentConfig& config = Config(segment);
      const bool surplus =
          move.kind == Move::Kind::kRecruit && static_cast<uint32_t>(config.replicas_size()) >= in_.replicas;
      if (!surplus) continue;
      if (const auto fullest = Fullest(config)) loads_[*fullest] -= 1;
    }
  }

  // -- 1 --

  // True: no segment lacks a replica, or will for want of shards, and all members live.
  bool Recruits() {
    bool complete = in_.held.empty();
    const size_t others = in_.alive.empty() ? 0 : in_.alive.size() - 1;
    const size_t wanted = std::min<size_t>(in_.replicas, others);
    for (uint32_t s = 0; s < SegmentCount(); ++s) {
      const v1::SegmentConfig& config = Config(s);
      if (!AllLive(config)) complete = false;
      if (static_cast<size_t>(config.replicas_size()) >= wanted && SomeStay(config)) continue;
      complete = false;
      if (!Free(s) || !Lives(config.primary())) continue;
      if (const auto to = BestLearner(s)) Begin(Move::Kind::kRecruit, s, *to);
    }
    return complete;
  }

  // Without a member that stays the segment would be lost with the last of them.
  bool SomeStay(const v1::SegmentConfig& config) const {
    const auto stays = [this](const v1::Member& member) {
      return Lives(member) && !in_.ending.contains(member.shard());
    };
    return in_.replicas == 0 || stays(config.primary()) || std::ranges::any_of(config.replicas(), stays);
  }

  std::optional<uint32_t> BestLearner(uint32_t segment) {
    const v1::SegmentConfig& config = Config(segment);
    std::optional<std::tuple<bool, int, int, int, uint32_t>> best;
    for (const uint32_t shard : in_.alive) {
      if (HasShard(config, shard) || !newest_.contains(shard) || in_.ending.contains(shard) ||
          !Room(config.primary().shard(), shard))
        continue;
      const std::tuple rank(in_.failed.contains({segment, shard}), ZoneConflicts(config, shard),
                            loads_[shard], pairs_[{config.primary().shard(), shard}], shard);
      if (!best || rank < *best) best = rank;
    }
    if (!best) return std::nullopt;
    return std::get<4>(*best);
  }

  int ZoneConflicts(const v1::SegmentConfig& config, uint32_t shard, std::optional<uint32_t> without = {}) {
    const std::string& zone = zones_[shard];
    if (zone.empty()) return 0;
    int conflicts = zones_[config.primary().shard()] == zone ? 1 : 0;
    for (const v1::Member& replica : config.replicas()) {
      if (replica.shard() != without && zones_[replica.shard()] == zone) ++conflicts;
    }
    return conflicts;
  }

  // -- 2 --

  void Drops() {
    for (uint32_t s = 0; s < SegmentCount(); ++s) {
      const v1::SegmentConfig& config = Config(s);
      if (!Free(s) || static_cast<uint32_t>(config.replicas_size()) <= in_.replicas) continue;
      const uint32_t fullest = *Fullest(config);
      loads_[fullest] -= 1;
      Begin(Move::Kind::kDrop, s, fullest);
    }
  }

  void EvenMembers() {
    if (in_.replicas == 0) return;
    while (EvenOneMember()) {
    }
  }

  bool EvenOneMember() {
    for (const uint32_t from : ByFalling(loads_)) {
      for (const uint32_t to : ByRising(loads_)) {
        if (loads_[from] < loads_[to] + 2) break;
        if (const auto segment = BestToReplace(from, to)) {
          Begin(Move::Kind::kRecruit, *segment, to);
          loads_[from] -= 1;
          return true;
        }
      }
    }
    return false;
  }

  // Of a primary that shares few segments with `to`: what one shard leaves behind is then spread over many.
  std::optional<uint32_t> BestToReplace(uint32_t from, uint32_t to) {
    std::optional<std::tuple<int, int, uint32_t>> best;
    for (const uint32_t s : replica_of_[from]) {
      if (!CanReplace(s, from, to)) continue;
      const uint32_t primary = Config(s).primary().shard();
      const std::tuple rank(pairs_[{primary, to}], -primaries_[primary], s);
      if (!best || rank < *best) best = rank;
    }
    if (!best) return std::nullopt;
    return std::get<2>(*best);
  }

  // The drop that follows must concern `from`: it is then the fullest.
  bool CanReplace(uint32_t segment, uint32_t from, uint32_t to) {
    const v1::SegmentConfig& config = Config(segment);
    return Free(segment) && static_cast<uint32_t>(config.replicas_size()) == in_.replicas &&
           !HasShard(config, to) && !in_.ending.contains(to) && Fullest(config) == from &&
           Room(config.primary().shard(), to) &&
           ZoneConflicts(config, to, from) <= ZoneConflicts(config, from, from);
  }

  // -- 3 --

  void EvenPrimaries() {
    while (EvenOnePrimary()) {
    }
  }

  bool EvenOnePrimary() {
    for (const uint32_t from : ByFalling(primaries_)) {
      if (in_.leaving.contains(from)) continue;
      for (const uint32_t to : ByRising(primaries_)) {
        if (primaries_[from] < primaries_[to] + 2) break;
        if (in_.leaving.contains(to) || !Room(from, to)) continue;
        for (const uint32_t s : primary_of_[from]) {
          if (!Free(s) || !HasShard(Config(s), to)) continue;
          Begin(Move::Kind::kHandOver, s, to);
          primaries_[from] -= 1;
          primaries_[to] += 1;
          return true;
        }
      }
    }
    return false;
  }

  std::vector<uint32_t> ByRising(std::map<uint32_t, int>& counts) const {
    std::vector<uint32_t> shards(in_.alive.begin(), in_.alive.end());
    std::ranges::sort(shards, {}, [&counts](uint32_t shard) { return std::pair(counts[shard], shard); });
    return shards;
  }
  std::vector<uint32_t> ByFalling(std::map<uint32_t, int>& counts) const {
    std::vector<uint32_t> shards = ByRising(counts);
    std::ranges::reverse(shards);
    return shards;
  }

  const MoveInputs& in_;
  const std::map<uint32_t, uint64_t> newest_;
  std::map<uint32_t, std::string> zones_;
  std::map<uint32_t, std::vector<uint32_t>> primary_of_;  // segments, by shard
  std::map<uint32_t, std::vector<uint32_t>> replica_of_;
  std::map<std::pair<uint32_t, uint32_t>, int> pairs_;  // segments, by primary and replica
  std::map<uint32_t, int> loads_;                       // segments a shard is a member of, by shard
  std::map<uint32_t, int> primaries_;                   // by shard
  std::map<uint32_t, int> from_;                        // moves under way of a primary's shard
  std::map<uint32_t, int> to_;                          // … to a shard
  std::set<uint32_t> taken_;                            // segments that are given a move here
  std::vector<Move> moves_;
};

}  // namespace

std::map<uint32_t, int> PrimariesAfter(const v1::Map& map, const std::map<uint32_t, Move>& under_way) {
  std::map<uint32_t, int> primaries;
  for (const v1::SegmentConfig& config : map.segments()) primaries[config.primary().shard()] += 1;
  for (const auto& [segment, move] : under_way) {
    if (move.kind != Move::Kind::kHandOver) continue;
    primaries[move.primary.shard()] -= 1;
    primaries[move.to.shard()] += 1;
  }
  return primaries;
}

std::vector<Move> PlanMoves(const MoveInputs& inputs) {
  return Plan(inputs).Make();
}

}  // namespace paceline::coordinator
