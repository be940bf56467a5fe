#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/ring/planner.h"
#include "libs/world/random.h"

// Random clusters for the planner, whose moves end in random order, and what its promises (planner.h) mean,
// written down as slowly and plainly as possible.

namespace paceline::ring {
using world::SplitMix64;
using world::Uniform;
using Takes = ShardState::Takes;
using Condition = SegmentState::Condition;
using Kind = Move::Kind;
using Loads = std::map<ShardId, int64_t>;
using Members = std::set<ShardId>;

inline constexpr uint64_t kSeeds = 200;

inline uint32_t Pick(SplitMix64& random, size_t n) {
  return static_cast<uint32_t>(Uniform(random, n));
}

template <class T>
inline void Shuffle(SplitMix64& random, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Pick(random, i)]);
}

inline Members MembersOf(const SegmentState& state) {
  return {state.members.begin(), state.members.end()};
}
inline Members MembersOf(const Owners& owners) {
  Members members(owners.replicas.begin(), owners.replicas.end());
  members.insert(owners.primary);
  return members;
}

inline Loads CopiesOf(const PlanInput& cluster) {
  Loads loads;
  for (const ShardState& shard : cluster.shards) loads[shard.shard] = 0;
  for (const SegmentState& state : cluster.segments) {
    for (ShardId member : state.members) loads[member] += state.load;
  }
  return loads;
}
inline Loads PrimariesOf(const PlanInput& cluster) {
  Loads loads;
  for (const ShardState& shard : cluster.shards) loads[shard.shard] = 0;
  for (const SegmentState& state : cluster.segments) loads[state.members[0]] += state.load;
  return loads;
}
inline int64_t Spread(const Loads& loads) {
  const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::ranges::minmax_element(loads, by_load);
  return most->second - least->second;
}

inline PlanInput NewCluster(uint32_t shards, uint32_t segments, uint32_t replicas) {
  PlanInput cluster{.segments = std::vector<SegmentState>(segments),
                    .shards = {},
                    .replicas = replicas,
                    .moves_per_shard = 8};
  for (uint32_t i = 0; i < shards; ++i) cluster.shards.push_back({.shard = ShardId(3 * i + 1)});
  return cluster;
}

inline void Place(PlanInput& cluster) {
  const Round round = PlanRound(cluster);
  EXPECT_TRUE(round.moves.empty());
  for (size_t s = 0; s < cluster.segments.size(); ++s) {
    cluster.segments[s].members = round.wanted[s].replicas;
    cluster.segments[s].members.insert(cluster.segments[s].members.begin(), round.wanted[s].primary);
  }
}

// Each segment has between `fewest` and `most` members; some shards have only just joined.
inline void Scatter(PlanInput& cluster, SplitMix64& random, uint32_t fewest, uint32_t most) {
  const size_t old = std::min<size_t>(cluster.shards.size(), fewest + Pick(random, cluster.shards.size()));
  for (SegmentState& state : cluster.segments) {
    state.members.clear();
    for (size_t i = 0; i < old; ++i) state.members.push_back(cluster.shards[i].shard);
    Shuffle(random, state.members);
    state.members.resize(std::min<size_t>(old, fewest + Pick(random, most - fewest + 1)));
  }
}

inline void Apply(const Move& move, SegmentState& state) {
  state.under_way.reset();
  if (move.kind == Kind::kRecruit) return state.members.push_back(move.to);
  if (move.kind == Kind::kDrop) {
    std::erase(state.members, move.to);
    return;
  }
  std::swap(state.members[0], *std::ranges::find(state.members, move.to));
}

// Safety, bounds and ties: what holds of each round.
inline void ExpectSound(const PlanInput& cluster, const Round& round, SplitMix64& random) {
  std::map<ShardId, Takes> takes;
  for (const ShardState& shard : cluster.shards) takes[shard.shard] = shard.takes;
  std::map<ShardId, uint32_t> from;
  std::map<ShardId, uint32_t> to;
  const auto count = [&](const Move& move) {
    if (move.kind == Kind::kDrop) return;
    from[move.primary] += 1;
    to[move.to] += 1;
  };
  for (const SegmentState& state : cluster.segments) {
    if (state.under_way.has_value()) count(*state.under_way);
  }
  std::set<SegmentId> moved;
  for (const Move& move : round.moves) {
    SCOPED_TRACE(ToString(move));
    const SegmentState& state = cluster.segments[move.segment.v];
    EXPECT_TRUE(moved.insert(move.segment).second);
    EXPECT_FALSE(state.under_way.has_value());
    EXPECT_NE(state.condition, Condition::kHeld);
    EXPECT_EQ(move.primary, state.members[0]);
    EXPECT_NE(move.to, move.primary);
    EXPECT_EQ(MembersOf(state).contains(move.to), move.kind != Kind::kRecruit);
    if (move.kind == Kind::kRecruit) {
      EXPECT_NE(takes.at(move.to), Takes::kNothing);
      EXPECT_NE(takes.at(move.to), Takes::kDrains);
    }
    if (move.kind == Kind::kHandOver) {
      EXPECT_EQ(takes.at(move.to), Takes::kAll);
    }
    if (move.kind == Kind::kDrop) {
      EXPECT_GT(state.members.size(), cluster.replicas + size_t{1});
    }
    count(move);
    EXPECT_LE(std::max(from[move.primary], to[move.to]), cluster.moves_per_shard);
  }
  PlanInput other = cluster;
  Shuffle(random, other.shards);
  for (SegmentState& state : other.segments) {
    if (state.members.size() < 2) continue;
    std::vector<ShardId> replicas(state.members.begin() + 1, state.members.end());
    Shuffle(random, replicas);
    std::ranges::copy(replicas, state.members.begin() + 1);
  }
  const Round again = PlanRound(other);
  EXPECT_EQ(again.moves, round.moves) << "the order of shards and replicas does not matter";
  EXPECT_EQ(again.wanted, round.wanted);
}

// The zone of each shard; one of unknown zone has its own.
inline std::map<ShardId, std::string> Zones(const PlanInput& cluster) {
  std::map<ShardId, std::string> zones;
  for (const ShardState& shard : cluster.shards)
    zones[shard.shard] = shard.zone.empty() ? absl::StrCat("/", shard.shard.v) : shard.zone;
  return zones;
}
// Pairs of members that share a zone.
inline int SharingPairs(const Members& members, const std::map<ShardId, std::string>& zones) {
  int pairs = 0;
  for (ShardId a : members) {
    for (ShardId b : members) pairs += a < b && zones.at(a) == zones.at(b) ? 1 : 0;
  }
  return pairs;
}
// The fewest that a segment of `size` members can have beside its primary, by trying all.
inline int FewestSharingPairs(ShardId primary, size_t size, const PlanInput& cluster) {
  const std::map<ShardId, std::string> zones = Zones(cluster);
  int fewest = INT32_MAX;
  for (uint32_t set = 0; set < uint32_t{1} << cluster.shards.size(); ++set) {
    Members members;
    for (size_t i = 0; i < cluster.shards.size(); ++i) {
      if ((set >> i & 1) != 0) members.insert(cluster.shards[i].shard);
    }
    if (members.size() == size && members.contains(primary))
      fewest = std::min(fewest, SharingPairs(members, zones));
  }
  return fewest;
}

// How far `wanted` is from even: pairs in a zone, squares of loads in copies.
inline std::pair<int, int64_t> Unevenness(const PlanInput& cluster, const Assignment& wanted) {
  const std::map<ShardId, std::string> zones = Zones(cluster);
  std::pair<int, int64_t> sums;
  Loads loads;
  for (size_t s = 0; s < wanted.size(); ++s) {
    sums.first += SharingPairs(MembersOf(wanted[s]), zones);
    for (ShardId member : MembersOf(wanted[s])) loads[member] += cluster.segments[s].load;
  }
  for (const auto& [shard, load] : loads) sums.second += load * load;
  return sums;
}
inline bool Repairs(const PlanInput& cluster) {
  const size_t wanted = std::min(cluster.replicas + size_t{1}, cluster.shards.size());
  return std::ranges::any_of(cluster.segments,
                             [&](const SegmentState& state) { return state.members.size() < wanted; });
}

// Does the planned moves in random order until there is rest, or until no member is missing; returns the
// moves that were begun.
inline std::vector<Move> Settle(PlanInput& cluster, SplitMix64& random, bool repairs_only = false) {
  std::vector<Move> begun;
  std::optional<std::pair<int, int64_t>> before;
  const bool even =
      std::ranges::all_of(cluster.segments, [](const auto& state) { return state.load == 1; }) &&
      std::ranges::all_of(cluster.shards, [](const auto& shard) { return shard.takes == Takes::kAll; });
  while (!repairs_only || Repairs(cluster)) {
    const Round round = PlanRound(cluster);
    ExpectSound(cluster, round, random);
    if (Repairs(cluster) || !even) {
      before.reset();
    } else {
      const auto now = Unevenness(cluster, round.wanted);
      const bool recruits =
          std::ranges::any_of(round.moves, [](const Move& move) { return move.kind == Kind::kRecruit; });
      if (before.has_value()) {
        EXPECT_TRUE(now < *before || (now == *before && !recruits)) << "who recruits makes all more even";
      }
      before = now;
    }
    begun.insert(begun.end(), round.moves.begin(), round.moves.end());
    std::vector<SegmentState*> busy;
    for (const Move& move : round.moves) {
      SegmentState& state = cluster.segments[move.segment.v];
      state.under_way = move;
      if (move.kind == Kind::kDrop) Apply(move, state);
    }
    for (SegmentState& state : cluster.segments) {
      if (state.under_way.has_value()) busy.push_back(&state);
    }
    if (busy.empty() && round.moves.empty()) return begun;
    if (!busy.empty()) {
      SegmentState& state = *busy[Pick(random, busy.size())];
      Apply(*state.under_way, state);
    }
    if (begun.size() > 100'000) {
      ADD_FAILURE() << "no rest";
      break;
    }
  }
  return begun;
}
inline size_t CountOf(Kind kind, const std::vector<Move>& moves) {
  return static_cast<size_t>(std::ranges::count(moves, kind, &Move::kind));
}

// How many copies must be made, at the least, for each of these shards to have the mean, rounded.
inline int64_t CopiesTooMany(const Loads& loads) {
  int64_t sum = 0;
  for (const auto& [shard, load] : loads) sum += load;
  const auto count = static_cast<int64_t>(loads.size());
  int64_t excess = 0;
  int64_t lack = 0;
  for (const auto& [shard, load] : loads) {
    excess += std::max<int64_t>(0, load - (sum + count - 1) / count);
    lack += std::max<int64_t>(0, sum / count - load);
  }
  return std::max(excess, lack);
}

// The same by trying all that is even.
class Fewest {
 public:
  explicit Fewest(const PlanInput& cluster) : cluster_(cluster), loads_(cluster.shards.size(), 0) {
    Try(0, 0);
  }
  size_t copies() const { return fewest_; }

 private:
  void Try(size_t segment, size_t copies) {
    if (copies >= fewest_) return;
    if (segment == cluster_.segments.size()) {
      const auto [least, most] = std::ranges::minmax_element(loads_);
      if (*most - *least <= 1) fewest_ = copies;
      return;
    }
    const Members now = MembersOf(cluster_.segments[segment]);
    const size_t wanted = std::min(cluster_.replicas + size_t{1}, cluster_.shards.size());
    for (uint32_t set = 0; set < uint32_t{1} << cluster_.shards.size(); ++set) {
      if (static_cast<size_t>(std::popcount(set)) != wanted) continue;
      size_t added = 0;
      for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        loads_[i] += 1;
        added += now.contains(cluster_.shards[i].shard) ? 0 : 1;
      }
      Try(segment + 1, copies + added);
      for (size_t i = 0; i < cluster_.shards.size(); ++i) loads_[i] -= static_cast<int>(set >> i & 1);
    }
  }

  const PlanInput& cluster_;
  std::vector<int> loads_;
  size_t fewest_ = SIZE_MAX;
};

}  // namespace paceline::ring
