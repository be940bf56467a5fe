#include "libs/ring/planner.h"

#include <algorithm>
#include <compare>
#include <cstdlib>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "libs/base/planted.h"
#include "libs/ring/chains.h"
#include "libs/ring/copies.h"
#include "libs/ring/relief.h"
#include "libs/ring/roster.h"

namespace paceline::ring {
namespace {

using Takes = ShardState::Takes;
using Condition = SegmentState::Condition;
using Kind = Move::Kind;

constexpr int kNone = Copies::kNone;

class Planner {
 public:
  explicit Planner(const PlanInput& input)
      : in_(input),
        roster_(input.shards, input.segments.size()),
        copies_(input, roster_),
        taken_(input.segments.size(), false),
        from_(roster_.size(), 0),
        to_(roster_.size(), 0) {
    for (int i = 0; i < roster_.size(); ++i) {
      if (TakesAny(i)) takers_.push_back(i);
    }
    wanted_ = std::min<size_t>(in_.replicas + size_t{1}, takers_.size());
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (!in_.segments[s].under_way.has_value()) continue;
      const Move& move = *in_.segments[s].under_way;
      Note(move.kind, roster_.IndexOf(move.primary), roster_.IndexOf(move.to));
      taken_[s] = true;
      busy_ = true;
    }
  }

  Round Make() && {
    Place();
    const bool complete = Repair();
    Trim(complete);
    Evacuate();
    if (complete) {
      Spread();
      EvenCopies(/*nearer=*/true);
      EvenPrimaries();
      if (!busy_ && moves_.empty()) EvenCopies(/*nearer=*/false);
    }
    const bool rest = complete && !busy_ && moves_.empty();
    if (in_.by_load && (rest || Planted(Bug::kLoadMovesEarly))) EvenLoad();
    return {.moves = std::move(moves_), .wanted = copies_.ToAssignment()};
  }

 private:
  // Without replicas whoever has a copy is to be primary.
  bool TakesAny(int shard) const {
    const Takes takes = roster_.TakesOf(shard);
    return takes == Takes::kAll || (takes == Takes::kReplicas && in_.replicas > 0);
  }
  bool Drains(int shard) const { return roster_.TakesOf(shard) == Takes::kDrains; }
  bool TakesAll(int shard) const { return roster_.TakesOf(shard) == Takes::kAll; }
  bool Avoids(uint32_t segment, int shard) const {
    return std::ranges::count(in_.segments[segment].avoid, roster_.IdOf(shard)) > 0;
  }
  int64_t Load(int shard) const { return copies_.loads()[shard]; }
  // It has no members yet: its plan is as good as done, and not a move.
  bool IsNew(uint32_t segment) const { return in_.segments[segment].members.empty(); }
  bool HasAsWanted(uint32_t segment) const { return copies_.SizeOf(segment) == in_.replicas + size_t{1}; }

  // Of the takers that may be, the one with the lowest rank, and of those alike with the lowest tie.
  template <class May, class Rank, class Tie>
  int Best(May may, Rank rank, Tie tie) const {
    int best = kNone;
    for (const int shard : takers_) {
      if (!may(shard)) continue;
      const auto order = best == kNone ? std::strong_ordering::less : rank(shard) <=> rank(best);
      if (order < 0 || (order == 0 && tie(shard) < tie(best))) best = shard;
    }
    return best;
  }

  // -- moves that begin --

  bool Free(uint32_t segment) const {
    return !taken_[segment] && in_.segments[segment].condition != Condition::kHeld;
  }
  // Whether the bound lets a recruit or a hand-over begin.
  bool Room(uint32_t segment, int to) const {
    const auto most = static_cast<int>(in_.moves_per_shard);
    return IsNew(segment) || (from_[copies_.PrimaryOf(segment)] < most && to_[to] < most);
  }
  void Note(Kind kind, int from, int to) {
    if (kind == Kind::kDrop) return;
    from_[from] += 1;
    to_[to] += 1;
  }
  void Begin(Kind kind, uint32_t segment, int to) {
    if (!IsNew(segment)) {
      const int primary = copies_.PrimaryOf(segment);
      taken_[segment] = true;
      Note(kind, primary, to);
      moves_.push_back({kind, SegmentId(segment), roster_.IdOf(primary), roster_.IdOf(to)});
    }
    copies_.Apply(kind, segment, to);
  }
  // What follows when the copy is there (Trim) counts as done: if `from` is primary it hands over, and it is
  // dropped.
  void Replace(uint32_t segment, int from, int to) {
    Begin(Kind::kRecruit, segment, to);
    copies_.Remove(segment, from, to);
  }

  // -- 1 --

  void Place() {
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (!IsNew(s)) continue;
      if (const int primary = BestPrimary(s); primary != kNone) copies_.Add(s, primary);
      while (copies_.SizeOf(s) < wanted_) copies_.Add(s, BestLearner(s));
    }
  }

  int BestPrimary(uint32_t segment) const {
    return Best([&](int shard) { return TakesAll(shard); },
                [&](int shard) { return std::pair(copies_.primary_loads()[shard], Load(shard)); },
                [&](int shard) { return roster_.Distance(segment, shard); });
  }

  // -- 2 --

  // True: all segments are sound and complete.
  bool Repair() {
    bool complete = true;
    std::vector<uint32_t> lacking;
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (IsNew(s)) continue;
      if (in_.segments[s].condition != Condition::kSound) complete = false;
      if (in_.segments[s].members.size() >= wanted_ && SomeStay(s)) continue;
      complete = false;
      if (Free(s)) lacking.push_back(s);
    }
    std::ranges::stable_sort(lacking, {}, [this](uint32_t s) { return copies_.SizeOf(s); });
    Recruit(lacking);
    return complete;
  }

  // Each recruits the best one that has room; then such as are equally fit are exchanged, so that loads are
  // even.
  void Recruit(const std::vector<uint32_t>& segments) {
    std::vector<Token> learners;
    for (const uint32_t s : segments) {
      const int best = BestLearner(s);
      if (best == kNone) continue;
      Token learner{.segment = s, .weight = copies_.WeightOf(s), .holder = best, .options = {}};
      std::ranges::copy_if(takers_, std::back_inserter(learner.options), [&](int shard) {
        return !copies_.Holds(s, shard) && Unfitness(s, shard) == Unfitness(s, best);
      });
      Begin(Kind::kRecruit, s, best);
      learners.push_back(std::move(learner));
    }
    std::vector<int64_t> loads = copies_.loads();
    const auto has_room = [this](const Token&, int to) {
      return to_[to] < static_cast<int>(in_.moves_per_shard);
    };
    PassOn(learners, loads, roster_, has_room, [this](const Token& learner, int to) {
      copies_.Remove(learner.segment, learner.holder);
      copies_.Add(learner.segment, to);
      to_[learner.holder] -= 1;
      to_[to] += 1;
      std::ranges::find(moves_, SegmentId(learner.segment), &Move::segment)->to = roster_.IdOf(to);
    });
  }

  // Without a member that stays the segment would be lost with the last of them. (A shard that drains stays
  // until it has nothing.)
  bool SomeStay(uint32_t segment) const {
    const auto stays = [this](int shard) { return roster_.TakesOf(shard) != Takes::kNothing; };
    return in_.replicas == 0 || stays(copies_.PrimaryOf(segment)) ||
           std::ranges::any_of(copies_.ReplicasOf(segment), stays);
  }

  std::pair<bool, int> Unfitness(uint32_t segment, int shard) const {
    return {Avoids(segment, shard), copies_.Conflicts(segment, shard)};
  }
  int BestLearner(uint32_t segment) const {
    const int primary = copies_.PrimaryOf(segment);
    return Best([&](int shard) { return !copies_.Holds(segment, shard) && Room(segment, shard); },
                [&](int shard) { return std::pair(Unfitness(segment, shard), Load(shard)); },
                [&](int shard) {
                  return std::pair(copies_.Pairs(primary, shard), roster_.Distance(segment, shard));
                });
  }

  // -- 3 --

  // Of all ways to drop a member of each segment that has too many, one that leaves loads most even. It does
  // not depend on who is primary: so after a hand-over, which is the first half of the drop of a primary, it
  // is the same. While segments are incomplete only shards that drain lose what they have.
  void Trim(bool complete) {
    std::vector<Token> drops;
    // A drop makes its shard lighter: what is passed on here weighs where it is not.
    std::vector<int64_t> lightness(copies_.loads().size());
    std::ranges::transform(copies_.loads(), lightness.begin(), std::negate<>());
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (copies_.SizeOf(s) <= in_.replicas + size_t{1}) continue;
      Token drop{.segment = s, .weight = copies_.WeightOf(s), .holder = kNone, .options = Droppable(s)};
      drop.holder = *std::ranges::min_element(drop.options, {}, [&](int shard) { return lightness[shard]; });
      lightness[drop.holder] += drop.weight;
      drops.push_back(std::move(drop));
    }
    PassOn(
        drops, lightness, roster_, [](const Token&, int) { return true; }, [](const Token&, int) {});
    for (const Token& drop : drops) {
      const bool may = complete || (Drains(drop.holder) && IsSound(drop.segment));
      LetGo(drop.segment, drop.holder, may && Free(drop.segment));
    }
  }

  // One of a segment's members that are too many; a primary hands over before it is dropped. `begins`: now,
  // if there is room. Otherwise the segment waits for that: it counts as it will be, which it is not yet.
  void LetGo(uint32_t segment, int member, bool begins) {
    if (copies_.PrimaryOf(segment) != member) {
      if (begins) return Begin(Kind::kDrop, segment, member);
      copies_.Remove(segment, member);
    } else {
      const int heir = BestHeir(segment);
      if (begins && TakesAll(heir) && Room(segment, heir)) Begin(Kind::kHandOver, segment, heir);
      copies_.Remove(segment, member, heir);
    }
    taken_[segment] = true;
  }

  // The replica that is primary of least, of those that may be primaries if there are any.
  int BestHeir(uint32_t segment) const {
    return *std::ranges::min_element(copies_.ReplicasOf(segment), {}, [&](int shard) {
      return std::tuple(!TakesAll(shard), copies_.primary_loads()[shard], roster_.Distance(segment, shard));
    });
  }

  // A shard that ends or drains goes first; then the members whose leaving removes most pairs that share a
  // zone. Primaries stay, unless they drain, or there is to be one member only.
  std::vector<int> Droppable(uint32_t segment) const {
    if (const std::optional<int> relieved = Relieved(segment)) return {*relieved};
    const auto rank = [&](int shard) {
      return std::pair(!TakesAny(shard), copies_.Conflicts(segment, shard));
    };
    std::vector<int> members = copies_.ReplicasOf(segment);
    const int primary = copies_.PrimaryOf(segment);
    // Where no replica can take its place the others go first, and it is replaced as one that drains.
    const bool heir = std::ranges::any_of(members, [this](int shard) { return TakesAll(shard); });
    if (heir && (in_.replicas == 0 || Drains(primary)))
      members.insert(std::ranges::lower_bound(members, primary), primary);
    std::vector<int> options;
    for (int member : members) {
      if (!options.empty() && rank(member) < rank(options.front())) continue;
      if (!options.empty() && rank(member) > rank(options.front())) options.clear();
      options.push_back(member);
    }
    return options;
  }

  // The member that has given the segment up by load, if all members could stay as well.
  std::optional<int> Relieved(uint32_t segment) const {
    const SegmentState& state = in_.segments[segment];
    const bool member = state.relieves.has_value() && std::ranges::count(state.members, *state.relieves) > 0;
    const auto stays = [this](ShardId shard) { return TakesAll(roster_.IndexOf(shard)); };
    if (!member || !std::ranges::all_of(state.members, stays)) return std::nullopt;
    return roster_.IndexOf(*state.relieves);
  }

  bool IsSound(uint32_t segment) const { return in_.segments[segment].condition == Condition::kSound; }

  // What drains is replaced, whatever the state of other segments.
  void Evacuate() {
    const auto drains = [this](int shard) { return Drains(shard); };
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (!Free(s) || !IsSound(s) || !HasAsWanted(s)) continue;
      const std::vector<int>& replicas = copies_.ReplicasOf(s);
      const auto replica = std::ranges::find_if(replicas, drains);
      const int from = replica != replicas.end() ? *replica : copies_.PrimaryOf(s);
      if (!Drains(from)) continue;
      if (const int to = BestLearner(s); to != kNone) Replace(s, from, to);
    }
  }

  // -- 4 --

  void Spread() {
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      while (Free(s) && HasAsWanted(s) && SpreadOne(s)) {
      }
    }
  }

  // One replica in a zone that it shares, and the one that is recruited in its place.
  struct Spreading {
    int pairs;  // that share a zone, more than before
    bool avoided;
    int64_t difference;  // of the loads
    int taken;           // of the primary by `to` already
    uint64_t distance;
    int from;
    int to;

    auto operator<=>(const Spreading&) const = default;
  };

  bool SpreadOne(uint32_t segment) {
    std::optional<Spreading> best;
    for (int from : copies_.ReplicasOf(segment)) {
      const int conflicts = copies_.Conflicts(segment, from);
      if (conflicts == 0 || !TakesAny(from)) continue;
      for (int to : takers_) {
        const int pairs = copies_.Conflicts(segment, to, from) - conflicts;
        if (pairs >= 0 || copies_.Holds(segment, to) || !Room(segment, to)) continue;
        const Spreading one{
            .pairs = pairs,
            .avoided = Avoids(segment, to),
            .difference = Load(to) - Load(from),
            .taken = copies_.Pairs(copies_.PrimaryOf(segment), to),
            .distance = roster_.Distance(segment, to),
            .from = from,
            .to = to,
        };
        if (!best.has_value() || one < *best) best = one;
      }
    }
    if (best.has_value()) Replace(segment, best->from, best->to);
    return best.has_value();
  }

  // -- 5 --

  // `nearer`: only what brings loads nearer to the mean, which zones aside is all there is to do, sooner or
  // later. Otherwise the move that makes two loads more even.
  void EvenCopies(bool nearer) {
    while (EvenOne(nearer)) {
    }
  }

  // From one of the fullest shards that can be relieved to the emptiest that can take it.
  bool EvenOne(bool nearer) {
    std::vector<int> rising = takers_;
    std::ranges::stable_sort(rising, {}, [this](int shard) { return Load(shard); });
    Measure();
    for (auto end = rising.end(); end != rising.begin();) {
      const int64_t most = Load(*(end - 1));
      const auto begin =
          std::ranges::lower_bound(rising, most, {}, [this](int shard) { return Load(shard); });
      for (const int to : rising) {
        if (most <= Load(to) + 1) break;
        std::optional<Replacement> best;
        for (auto from = begin; from != end; ++from) Consider(*from, to, nearer, best);
        if (!best.has_value()) continue;
        Replace(best->segment, best->from, to);
        return true;
      }
      end = begin;
    }
    return false;
  }

  struct Replacement {
    bool avoided;
    int pairs;           // that share a zone, more than before
    int64_t difference;  // of the loads, afterwards
    int64_t taken;       // of the primary by `to` already, of what it has
    uint64_t distance;
    uint64_t nearness;
    uint32_t segment;
    int from;

    auto operator<=>(const Replacement&) const = default;
  };

  // Segments of which `shard` may be replaced.
  std::vector<uint32_t> Movable(int shard) const {
    if (in_.replicas > 0) return copies_.ReplicaOf(shard);
    std::vector<uint32_t> segments;
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (copies_.PrimaryOf(s) == shard) segments.push_back(s);
    }
    return segments;
  }

  // Preferred is a segment whose primary has most beyond what the new one can take over from it already.
  void Consider(int from, int to, bool nearer, std::optional<Replacement>& best) const {
    const int64_t difference = Load(from) - Load(to);
    for (const uint32_t s : Movable(from)) {
      const int64_t weight = copies_.WeightOf(s);
      const int pairs = copies_.Conflicts(s, to, from) - copies_.Conflicts(s, from);
      if (!HasAsWanted(s) || copies_.Holds(s, to) || pairs > 0 || weight >= difference) continue;
      if ((nearer && !Nearer(from, to, weight)) || !Free(s) || !Room(s, to)) continue;
      const int primary = copies_.PrimaryOf(s);
      const Replacement one{
          .avoided = Avoids(s, to),
          .pairs = pairs,
          .difference = std::abs(difference - 2 * weight),
          .taken = copies_.Pairs(primary, to) * weight - copies_.primary_loads()[primary],
          .distance = roster_.Distance(s, to),
          .nearness = ~roster_.Distance(s, from),
          .segment = s,
          .from = from,
      };
      if (!best.has_value() || one < *best) best = one;
    }
  }

  // Load beyond the mean, rounded up, and load that is missing to the mean, rounded down: the greater of
  // the two sums is the distance from rest.
  int64_t Excess(int64_t load) const { return std::max<int64_t>(0, load - ceil_); }
  int64_t Lack(int64_t load) const { return std::max<int64_t>(0, floor_ - load); }
  void Measure() {
    int64_t sum = 0;
    for (const int shard : takers_) sum += Load(shard);
    const auto count = std::max<int64_t>(1, static_cast<int64_t>(takers_.size()));
    floor_ = sum / count;
    ceil_ = (sum + count - 1) / count;
    excess_ = lack_ = 0;
    for (const int shard : takers_) {
      excess_ += Excess(Load(shard));
      lack_ += Lack(Load(shard));
    }
  }
  bool Nearer(int from, int to, int64_t weight) const {
    const int64_t a = Load(from);
    const int64_t b = Load(to);
    const int64_t excess = excess_ - Excess(a) - Excess(b) + Excess(a - weight) + Excess(b + weight);
    const int64_t lack = lack_ - Lack(a) - Lack(b) + Lack(a - weight) + Lack(b + weight);
    return std::max(excess, lack) < std::max(excess_, lack_);
  }

  // -- 6 --

  void EvenPrimaries() {
    const auto takes_all = [this](int shard) { return TakesAll(shard); };
    std::vector<Token> tokens;
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      const int primary = copies_.PrimaryOf(s);
      if (!Free(s) || primary == kNone || !TakesAll(primary)) continue;
      Token token{.segment = s, .weight = copies_.WeightOf(s), .holder = primary, .options = {primary}};
      std::ranges::copy_if(copies_.ReplicasOf(s), std::back_inserter(token.options), takes_all);
      tokens.push_back(std::move(token));
    }
    std::vector<int64_t> loads = copies_.primary_loads();
    PassOn(
        tokens, loads, roster_,
        [this](const Token& token, int to) { return Free(token.segment) && Room(token.segment, to); },
        [this](const Token& token, int to) { Begin(Kind::kHandOver, token.segment, to); });
  }

  // -- 7 --

  void EvenLoad() {
    Relieve(
        in_, roster_, copies_,
        [this](Kind, uint32_t segment, int to) {
          return Free(segment) && HasAsWanted(segment) && !Avoids(segment, to) && Room(segment, to);
        },
        [this](Kind kind, uint32_t segment, int from, int to) {
          Begin(kind, segment, to);
          if (kind == Kind::kRecruit) copies_.Remove(segment, from, to);
          moves_.back().relieves = roster_.IdOf(from);
        });
  }

  const PlanInput& in_;
  const Roster roster_;
  Copies copies_;
  std::vector<int> takers_;  // of replicas at least
  size_t wanted_ = 0;        // members of a segment, of those there could be
  std::vector<bool> taken_;  // a move of the segment is under way, or has been planned
  std::vector<int> from_;    // moves under way or planned, of a primary's segments
  std::vector<int> to_;      // … to a shard
  int64_t floor_ = 0, ceil_ = 0, excess_ = 0, lack_ = 0;
  bool busy_ = false;  // some move is under way
  std::vector<Move> moves_;
};

}  // namespace

Round PlanRound(const PlanInput& input) {
  return Planner(input).Make();
}

}  // namespace paceline::ring
