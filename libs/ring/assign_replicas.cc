#include "libs/ring/assign_replicas.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace paceline::ring {
namespace {

class ReplicaPlan {
 public:
  ReplicaPlan(const Roster& roster, const std::vector<int>& primaries, int replicas)
      : roster_(roster),
        primaries_(primaries),
        wanted_(static_cast<size_t>(replicas)),
        chosen_(primaries.size()),
        loads_(roster.size(), 0) {}

  void Keep(const Assignment& previous) {
    for (const Owners& owners : previous) {
      for (ShardId shard : owners.replicas) {
        if (const int i = roster_.IndexOf(shard); i != Roster::kUnknown) {
          ++loads_[i];
        }
      }
    }
    for (uint32_t s = 0; s < chosen_.size(); ++s) {
      KeepOf(s, previous[s]);
    }
  }

  void Fill() {
    for (uint32_t s = 0; s < chosen_.size(); ++s) {
      while (chosen_[s].size() < wanted_) {
        Place(s, BestNewcomer(s));
      }
    }
  }

  // Moves single replicas from the fullest candidate to the emptiest one that may take one, as long as that
  // brings the two closer together.
  void Even() {
    std::vector<std::vector<uint32_t>> held = HeldFarthestLast();
    std::vector<bool> stuck(roster_.size(), false);
    bool moved = false;
    while (true) {
      const int from = Fullest(stuck);
      if (from != Roster::kUnknown && GiveOne(from, held)) {
        moved = true;
      } else if (from != Roster::kUnknown) {
        stuck[from] = true;
      } else if (moved) {
        // Who has given since may take from one who found nobody before.
        stuck.assign(roster_.size(), false);
        moved = false;
      } else {
        return;
      }
    }
  }

  std::vector<std::vector<int>> Result() && {
    for (std::vector<int>& replicas : chosen_) {
      std::sort(replicas.begin(), replicas.end());
    }
    return std::move(chosen_);
  }

 private:
  bool Holds(uint32_t segment, int i) const {
    const std::vector<int>& replicas = chosen_[segment];
    return primaries_[segment] == i || std::find(replicas.begin(), replicas.end(), i) != replicas.end();
  }

  // How many members of `segment` other than `without` share the zone of `i`.
  int Conflicts(uint32_t segment, int i, int without = Roster::kUnknown) const {
    int conflicts = roster_.SameZone(primaries_[segment], i) ? 1 : 0;
    for (int replica : chosen_[segment]) {
      conflicts += replica != without && roster_.SameZone(replica, i) ? 1 : 0;
    }
    return conflicts;
  }

  void Place(uint32_t segment, int i) {
    chosen_[segment].push_back(i);
    ++loads_[i];
  }

  // Keeps of the former members those that fit best, and none that somebody in a zone of its own could
  // replace. A former primary is kept where there is a place: it has the data.
  void KeepOf(uint32_t segment, const Owners& owners) {
    const int primary = roster_.IndexOf(owners.primary);
    std::vector<int> former{primary};
    for (ShardId shard : owners.replicas) {
      if (const int i = roster_.IndexOf(shard); i != Roster::kUnknown) {
        --loads_[i];  // Keep counted it; what is kept is counted by Place
        former.push_back(i);
      }
    }
    while (chosen_[segment].size() < wanted_) {
      std::tuple<int, bool, uint32_t, uint64_t, int> best(roster_.size(), false, 0, 0, 0);
      for (int i : former) {
        if (i != Roster::kUnknown && !Holds(segment, i)) {
          best = std::min(best, std::tuple(Conflicts(segment, i), i == primary, loads_[i],
                                           roster_.Distance(segment, i), i));
        }
      }
      if (std::get<0>(best) > FewestConflicts(segment)) {
        return;
      }
      Place(segment, std::get<4>(best));
    }
  }

  int FewestConflicts(uint32_t segment) const {
    int fewest = roster_.size();
    for (int i = 0; i < roster_.size() && fewest > 0; ++i) {
      if (!Holds(segment, i)) {
        fewest = std::min(fewest, Conflicts(segment, i));
      }
    }
    return fewest;
  }

  // There is one: a segment wants fewer replicas than there are candidates.
  int BestNewcomer(uint32_t segment) const {
    std::tuple<int, uint32_t, uint64_t, int> best(roster_.size(), 0, 0, 0);
    for (int i = 0; i < roster_.size(); ++i) {
      if (!Holds(segment, i)) {
        best = std::min(best, std::tuple(Conflicts(segment, i), loads_[i], roster_.Distance(segment, i), i));
      }
    }
    return std::get<3>(best);
  }

  // Per candidate the segments it is a replica of; what it would give away first is at the end.
  std::vector<std::vector<uint32_t>> HeldFarthestLast() const {
    std::vector<std::vector<std::pair<uint64_t, uint32_t>>> sorted(roster_.size());
    for (uint32_t s = 0; s < chosen_.size(); ++s) {
      for (int i : chosen_[s]) {
        sorted[i].emplace_back(roster_.Distance(s, i), s);
      }
    }
    std::vector<std::vector<uint32_t>> held(roster_.size());
    for (int i = 0; i < roster_.size(); ++i) {
      std::sort(sorted[i].begin(), sorted[i].end());
      for (const auto& [distance, segment] : sorted[i]) {
        held[i].push_back(segment);
      }
    }
    return held;
  }

  int Fullest(const std::vector<bool>& stuck) const {
    int fullest = Roster::kUnknown;
    for (int i = 0; i < roster_.size(); ++i) {
      if (!stuck[i] && (fullest == Roster::kUnknown || loads_[i] > loads_[fullest])) {
        fullest = i;
      }
    }
    return fullest;
  }

  bool GiveOne(int from, std::vector<std::vector<uint32_t>>& held) {
    std::vector<std::pair<uint32_t, int>> takers;
    for (int i = 0; i < roster_.size(); ++i) {
      if (loads_[i] + 2 <= loads_[from]) {
        takers.emplace_back(loads_[i], i);
      }
    }
    std::sort(takers.begin(), takers.end());
    for (const auto& [load, to] : takers) {
      for (size_t n = held[from].size(); n-- > 0;) {
        const uint32_t s = held[from][n];
        if (!Holds(s, to) && Conflicts(s, to, from) <= Conflicts(s, from, from)) {
          std::replace(chosen_[s].begin(), chosen_[s].end(), from, to);
          held[from].erase(held[from].begin() + static_cast<ptrdiff_t>(n));
          held[to].push_back(s);
          --loads_[from];
          ++loads_[to];
          return true;
        }
      }
    }
    return false;
  }

  const Roster& roster_;
  const std::vector<int>& primaries_;
  const size_t wanted_;
  std::vector<std::vector<int>> chosen_;
  std::vector<uint32_t> loads_;  // replicas per candidate
};

}  // namespace

std::vector<std::vector<int>> AssignReplicas(const Roster& roster, const Assignment* previous,
                                             const std::vector<int>& primaries, int replicas) {
  ReplicaPlan plan(roster, primaries, replicas);
  if (previous != nullptr) {
    plan.Keep(*previous);
  }
  plan.Fill();
  plan.Even();
  return std::move(plan).Result();
}

}  // namespace paceline::ring
