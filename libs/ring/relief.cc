#include "libs/ring/relief.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "libs/base/planted.h"

namespace paceline::ring {
namespace {

using Kind = Move::Kind;
using MayGo = absl::FunctionRef<bool(Kind, uint32_t, int)>;
using GoOn = absl::FunctionRef<void(Kind, uint32_t, int, int)>;

// A shard with less than so many means is not relieved.
constexpr double kEnough = 1.05;
// In one round at most so many exchanges are planned; for each of them, so many shards are tried, those with
// least first. A plan of a large ring must not take long.
constexpr int kExchangesMax = 64;
constexpr int kTriedMax = 32;

// What one shard has, or a segment brings.
struct Amount {
  double traffic = 0;
  double bytes = 0;

  Amount operator+(const Amount& other) const { return {traffic + other.traffic, bytes + other.bytes}; }
  Amount operator-(const Amount& other) const { return {traffic - other.traffic, bytes - other.bytes}; }
  double Square() const { return traffic * traffic + bytes * bytes; }
  double Peak() const { return std::max(traffic, bytes); }
};

class Relief {
 public:
  Relief(const PlanInput& input, const Roster& roster, const Copies& copies, MayGo may, GoOn begin)
      : in_(input),
        roster_(roster),
        copies_(copies),
        may_(may),
        begin_(begin),
        has_(roster.size()),
        held_(roster.size()) {
    for (int i = 0; i < roster_.size(); ++i) {
      if (roster_.TakesOf(i) == ShardState::Takes::kAll) shards_.push_back(i);
    }
    double traffic = 0;
    double bytes = 0;
    for (const SegmentState& segment : in_.segments) {
      traffic += segment.traffic;
      bytes += segment.bytes * static_cast<double>(segment.members.size());
    }
    const auto count = static_cast<double>(std::max<size_t>(1, shards_.size()));
    // Of nothing every shard has the same.
    traffic_unit_ = traffic > 0 ? count / traffic : 0;
    bytes_unit_ = bytes > 0 ? count / bytes : 0;
    for (uint32_t s = 0; s < copies_.count(); ++s) {
      if (copies_.PrimaryOf(s) == Copies::kNone) continue;
      has_[copies_.PrimaryOf(s)].traffic += traffic_unit_ * in_.segments[s].traffic;
      has_[copies_.PrimaryOf(s)].bytes += bytes_unit_ * in_.segments[s].bytes;
      held_[copies_.PrimaryOf(s)].push_back(s);
      for (const int replica : copies_.ReplicasOf(s)) {
        has_[replica].bytes += bytes_unit_ * in_.segments[s].bytes;
        held_[replica].push_back(s);
      }
    }
  }

  // Every shard takes all, or holds nothing.
  bool EverybodyStays() const {
    for (int i = 0; i < roster_.size(); ++i) {
      const auto takes = roster_.TakesOf(i);
      const bool leaves = takes == ShardState::Takes::kDrains || copies_.loads()[i] > 0;
      if (takes != ShardState::Takes::kAll && leaves) return false;
    }
    return true;
  }

  // False: none is left that is worth it.
  bool RelieveOne() {
    std::vector<int> falling = shards_;
    std::ranges::stable_sort(falling, std::greater<>(), [this](int shard) { return has_[shard].Peak(); });
    for (const int from : falling) {
      if (has_[from].Peak() < kEnough) return false;
      for (const Kind kind : {Kind::kHandOver, Kind::kRecruit}) {
        std::optional<Exchange> best;
        int tried = 0;
        for (auto to = falling.rbegin(); to != falling.rend() && tried < kTriedMax; ++to)
          tried += Consider(kind, from, *to, best) ? 1 : 0;
        if (!best.has_value()) continue;
        Go(*best);
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr int64_t kNothing = -1;

  struct Exchange {
    double gain = kReliefMargin;
    Kind kind = Kind::kRecruit;
    int from = 0;
    int to = 0;
    uint32_t gives = 0;
    int64_t takes = kNothing;  // back; a segment

    // Of equal ones that with one move; then the order of segments and shards decides.
    bool BetterThan(const Exchange& other) const {
      const auto rank = [](const Exchange& one) {
        return std::tuple(-one.gain, one.takes != kNothing, one.gives, one.takes, one.to);
      };
      return rank(*this) < rank(other);
    }
  };

  bool WithReplicas() const { return in_.replicas > 0; }

  // What goes along when `segment` goes.
  Amount Brings(Kind kind, uint32_t segment) const {
    const bool traffic = kind == Kind::kHandOver || !WithReplicas();
    const bool bytes = kind == Kind::kRecruit;
    return {.traffic = traffic ? traffic_unit_ * in_.segments[segment].traffic : 0,
            .bytes = bytes ? bytes_unit_ * in_.segments[segment].bytes : 0};
  }

  // The segments that `from` could give to `to`.
  std::vector<uint32_t> Gifts(Kind kind, int from, int to) const {
    std::vector<uint32_t> gifts;
    for (const uint32_t s : held_[from]) {
      const bool primary = copies_.PrimaryOf(s) == from;
      if (in_.segments[s].rests) continue;
      if (kind == Kind::kHandOver ? !primary || !copies_.Holds(s, to) : copies_.Holds(s, to)) continue;
      if (kind == Kind::kRecruit && primary == WithReplicas()) continue;
      if (kind == Kind::kRecruit && copies_.Conflicts(s, to, from) > copies_.Conflicts(s, from)) continue;
      if (may_(kind, s, to)) gifts.push_back(s);
    }
    return gifts;
  }

  // Whether `from` may have less by so much, and `to` more, and both still have as many as others.
  bool MayGoAlone(Kind kind, int from, int to, int64_t weight) const {
    const auto& loads = kind == Kind::kHandOver ? copies_.primary_loads() : copies_.loads();
    return loads[from] - loads[to] == weight;
  }

  // False: nothing can go from the one to the other.
  bool Consider(Kind kind, int from, int to, std::optional<Exchange>& best) const {
    if (from == to || has_[to].Peak() >= has_[from].Peak()) return false;
    const std::vector<uint32_t> gives = Gifts(kind, from, to);
    if (gives.empty()) return false;
    const std::vector<uint32_t> takes = Gifts(kind, to, from);
    const double before = has_[from].Square() + has_[to].Square();
    const auto consider = [&](uint32_t give, int64_t take) {
      Amount goes = Brings(kind, give);
      if (take != kNothing) goes = goes - Brings(kind, static_cast<uint32_t>(take));
      const double gain = before - (has_[from] - goes).Square() - (has_[to] + goes).Square();
      const Exchange one{.gain = gain, .kind = kind, .from = from, .to = to, .gives = give, .takes = take};
      if (gain < kReliefMargin || (best.has_value() && !one.BetterThan(*best))) return;
      best = one;
    };
    for (const uint32_t give : gives) {
      const int64_t weight = copies_.WeightOf(give);
      if (MayGoAlone(kind, from, to, weight)) consider(give, kNothing);
      for (const uint32_t take : takes) {
        // Two moves of one primary's segments might find room for one.
        const bool apart = copies_.PrimaryOf(give) != copies_.PrimaryOf(take);
        if (apart && copies_.WeightOf(take) == weight) consider(give, take);
      }
    }
    return true;
  }

  void Go(const Exchange& exchange) {
    Go(exchange.kind, exchange.gives, exchange.from, exchange.to);
    if (exchange.takes != kNothing)
      Go(exchange.kind, static_cast<uint32_t>(exchange.takes), exchange.to, exchange.from);
  }
  void Go(Kind kind, uint32_t segment, int from, int to) {
    const Amount goes = Brings(kind, segment);
    has_[from] = has_[from] - goes;
    has_[to] = has_[to] + goes;
    begin_(kind, segment, from, to);
  }

  const PlanInput& in_;
  const Roster& roster_;
  const Copies& copies_;
  const MayGo may_;
  const GoOn begin_;
  std::vector<int> shards_;  // that take part
  std::vector<Amount> has_;  // by shard, in means of all
  std::vector<std::vector<uint32_t>>
      held_;  // by shard, before the first exchange; what moves is not free any more
  double traffic_unit_ = 0;
  double bytes_unit_ = 0;
};

}  // namespace

void Relieve(const PlanInput& input, const Roster& roster, const Copies& copies, MayGo may, GoOn begin) {
  Relief relief(input, roster, copies, may, begin);
  if (!relief.EverybodyStays() && !Planted(Bug::kLoadMovesEarly)) return;
  for (int i = 0; i < kExchangesMax && relief.RelieveOne(); ++i) {
  }
}

}  // namespace paceline::ring
