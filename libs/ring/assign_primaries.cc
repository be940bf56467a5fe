#include "libs/ring/assign_primaries.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace paceline::ring {
namespace {

// How many segments each candidate is to get: floor(S/N), and one more for S mod N of them. First come those
// who have more than floor(S/N) already — whichever of them, the same number stays put; what is left over is
// open until somebody takes it.
class Quotas {
 public:
  Quotas(uint32_t segments, const std::vector<uint32_t>& loads)
      : floor_(segments / static_cast<uint32_t>(loads.size())),
        spare_(segments % static_cast<uint32_t>(loads.size())),
        quotas_(loads.size(), floor_) {
    for (size_t i = 0; i < loads.size() && spare_ > 0; ++i) {
      if (loads[i] > floor_) {
        ++quotas_[i];
        --spare_;
      }
    }
  }

  uint32_t Of(int i) const { return quotas_[i]; }
  bool HasRoom(int i, uint32_t load) const { return load < quotas_[i] || (spare_ > 0 && load == floor_); }
  // REQUIRES: HasRoom(i, load).
  void Take(int i, uint32_t load) {
    if (load == quotas_[i]) {
      ++quotas_[i];
      --spare_;
    }
  }

 private:
  const uint32_t floor_;
  uint32_t spare_;
  std::vector<uint32_t> quotas_;
};

class PrimaryPlan {
 public:
  PrimaryPlan(const Roster& roster, const Assignment* previous, uint32_t segments)
      : roster_(roster),
        previous_(previous),
        owners_(segments, Roster::kUnknown),
        loads_(CountKept()),
        quotas_(segments, loads_) {}

  std::vector<int> Run() && {
    for (int i = 0; i < roster_.size(); ++i) {
      Shed(i);
    }
    // Replicas first: once all have had their choice, the rest takes what room is left.
    for (uint32_t s = 0; s < owners_.size(); ++s) {
      if (owners_[s] == Roster::kUnknown) {
        GiveToReplica(s);
      }
    }
    for (uint32_t s = 0; s < owners_.size(); ++s) {
      if (owners_[s] == Roster::kUnknown) {
        GiveToNearest(s);
      }
    }
    return std::move(owners_);
  }

 private:
  std::vector<uint32_t> CountKept() {
    std::vector<uint32_t> loads(roster_.size(), 0);
    for (uint32_t s = 0; previous_ != nullptr && s < owners_.size(); ++s) {
      owners_[s] = roster_.IndexOf((*previous_)[s].primary);
      if (owners_[s] != Roster::kUnknown) {
        ++loads[owners_[s]];
      }
    }
    return loads;
  }

  bool HasRoom(int i) const { return quotas_.HasRoom(i, loads_[i]); }

  void Give(uint32_t segment, int i) {
    quotas_.Take(i, loads_[i]);
    owners_[segment] = i;
    ++loads_[i];
  }

  bool ReplicaHasRoom(uint32_t segment) const {
    const std::vector<ShardId>& replicas = (*previous_)[segment].replicas;
    return std::any_of(replicas.begin(), replicas.end(), [&](ShardId shard) {
      const int i = roster_.IndexOf(shard);
      return i != Roster::kUnknown && HasRoom(i);
    });
  }

  // Takes from `i` what is over its quota: first what a replica can take over without a copy, then what lies
  // farthest from it on the ring.
  void Shed(int i) {
    if (loads_[i] <= quotas_.Of(i)) {
      return;
    }
    std::vector<std::tuple<bool, uint64_t, uint32_t>> held;
    for (uint32_t s = 0; s < owners_.size(); ++s) {
      if (owners_[s] == i) {
        held.emplace_back(!ReplicaHasRoom(s), ~roster_.Distance(s, i), s);
      }
    }
    std::sort(held.begin(), held.end());
    for (size_t n = 0; loads_[i] > quotas_.Of(i); ++n) {
      owners_[std::get<2>(held[n])] = Roster::kUnknown;
      --loads_[i];
    }
  }

  void GiveToReplica(uint32_t segment) {
    if (previous_ == nullptr) {
      return;
    }
    std::tuple<uint32_t, uint64_t, int> best;
    bool found = false;
    for (ShardId shard : (*previous_)[segment].replicas) {
      const int i = roster_.IndexOf(shard);
      if (i == Roster::kUnknown || !HasRoom(i)) {
        continue;
      }
      const std::tuple rank(loads_[i], roster_.Distance(segment, i), i);
      if (!found || rank < best) {
        best = rank;
        found = true;
      }
    }
    if (found) {
      Give(segment, std::get<2>(best));
    }
  }

  // Somebody has room: the quotas and what is spare add up to the number of segments.
  void GiveToNearest(uint32_t segment) {
    std::tuple<uint64_t, int> best(~uint64_t{0}, roster_.size());
    for (int i = 0; i < roster_.size(); ++i) {
      if (HasRoom(i)) {
        best = std::min(best, std::tuple(roster_.Distance(segment, i), i));
      }
    }
    Give(segment, std::get<1>(best));
  }

  const Roster& roster_;
  const Assignment* previous_;
  std::vector<int> owners_;
  std::vector<uint32_t> loads_;
  Quotas quotas_;
};

}  // namespace

std::vector<int> AssignPrimaries(const Roster& roster, const Assignment* previous, uint32_t segments) {
  return PrimaryPlan(roster, previous, segments).Run();
}

}  // namespace paceline::ring
