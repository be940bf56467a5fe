#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/ring/planner.h"

// What the promises in planner.h mean, written down as slowly and plainly as possible.
namespace paceline::ring::testing {

using Loads = std::map<ShardId, uint32_t>;

inline uint32_t CeilDiv(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

inline std::set<ShardId> MembersOf(const Owners& owners) {
  std::set<ShardId> members(owners.replicas.begin(), owners.replicas.end());
  members.insert(owners.primary);
  return members;
}

inline Loads PrimaryLoads(const Assignment& assignment, const std::vector<Candidate>& shards) {
  Loads loads;
  for (const Candidate& candidate : shards) {
    loads[candidate.shard] = 0;
  }
  for (const Owners& owners : assignment) {
    ++loads[owners.primary];
  }
  return loads;
}

inline Loads ReplicaLoads(const Assignment& assignment, const std::vector<Candidate>& shards) {
  Loads loads;
  for (const Candidate& candidate : shards) {
    loads[candidate.shard] = 0;
  }
  for (const Owners& owners : assignment) {
    for (ShardId shard : owners.replicas) {
      ++loads[shard];
    }
  }
  return loads;
}

inline uint32_t Spread(const Loads& loads) {
  const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end(), by_load);
  return most->second - least->second;
}

inline std::set<ShardId> Ids(const std::vector<Candidate>& shards) {
  std::set<ShardId> ids;
  for (const Candidate& candidate : shards) {
    ids.insert(candidate.shard);
  }
  return ids;
}

// The zone of each shard; one of unknown zone has its own.
inline std::map<ShardId, std::string> Zones(const std::vector<Candidate>& shards) {
  std::map<ShardId, std::string> zones;
  for (const Candidate& candidate : shards) {
    zones[candidate.shard] = candidate.zone.empty() ? absl::StrCat("/", candidate.shard.v) : candidate.zone;
  }
  return zones;
}

// Pairs of members that share a zone.
inline int SharingPairs(const std::set<ShardId>& members, const std::map<ShardId, std::string>& zones) {
  int pairs = 0;
  for (ShardId a : members) {
    for (ShardId b : members) {
      pairs += a < b && zones.at(a) == zones.at(b) ? 1 : 0;
    }
  }
  return pairs;
}

// The fewest such pairs that a segment of `size` members can have beside its primary: a place at a time is
// given to the zone that has the fewest members and a shard left.
inline int FewestSharingPairs(ShardId primary, size_t size, const std::map<ShardId, std::string>& zones) {
  std::map<std::string, int> free;
  for (const auto& [shard, zone] : zones) {
    ++free[zone];
  }
  std::map<std::string, int> taken;
  int pairs = 0;
  std::string zone = zones.at(primary);
  while (true) {
    pairs += taken[zone]++;
    --free[zone];
    if (--size == 0) {
      return pairs;
    }
    bool found = false;
    for (const auto& [other, left] : free) {
      if (left > 0 && (!found || taken[other] < taken[zone])) {
        zone = other;
        found = true;
      }
    }
  }
}

// The last of promise 5: no replica stays where a shard with two fewer of them could have it.
inline void ExpectEven(const Assignment& assignment, const std::vector<Candidate>& shards) {
  const std::map<ShardId, std::string> zones = Zones(shards);
  Loads loads = ReplicaLoads(assignment, shards);
  for (const Owners& owners : assignment) {
    std::set<ShardId> members = MembersOf(owners);
    const int pairs = SharingPairs(members, zones);
    for (ShardId from : owners.replicas) {
      members.erase(from);
      for (const auto& [to, load] : loads) {
        if (load + 2 > loads[from] || !members.insert(to).second) {
          continue;
        }
        EXPECT_GT(SharingPairs(members, zones), pairs)
            << "shard " << to.v << " has " << load << " replicas, shard " << from.v << " " << loads[from];
        members.erase(to);
      }
      members.insert(from);
    }
  }
}

// Promises 1, 2 and the end of 5: what holds of one result, whatever came before it.
inline void ExpectSound(const Assignment& assignment, const std::vector<Candidate>& shards, int replicas,
                        int k) {
  const auto segments = uint32_t{1} << k;
  const auto n = static_cast<uint32_t>(shards.size());
  ASSERT_EQ(assignment.size(), segments);
  const std::set<ShardId> ids = Ids(shards);
  const size_t size = 1 + std::min<size_t>(replicas, n - 1);
  const std::map<ShardId, std::string> zones = Zones(shards);
  for (const Owners& owners : assignment) {
    const std::set<ShardId> members = MembersOf(owners);
    EXPECT_EQ(members.size(), size) << "distinct, and as many as wanted";
    EXPECT_EQ(owners.replicas.size() + 1, size);
    EXPECT_TRUE(std::includes(ids.begin(), ids.end(), members.begin(), members.end()));
    EXPECT_EQ(SharingPairs(members, zones), FewestSharingPairs(owners.primary, size, zones));
  }
  for (const auto& [shard, load] : PrimaryLoads(assignment, shards)) {
    EXPECT_GE(load, segments / n);
    EXPECT_LE(load, CeilDiv(segments, n));
  }
  ExpectEven(assignment, shards);
}

// Promise 3, for a `from` that Assign made.
inline void ExpectNothingMovesBetweenStayers(const Assignment& from, const std::vector<Candidate>& before,
                                             const Assignment& to, const std::vector<Candidate>& after) {
  const std::set<ShardId> old_ids = Ids(before);
  const std::set<ShardId> new_ids = Ids(after);
  uint32_t moved = 0;
  uint32_t orphans = 0;
  for (size_t s = 0; s < from.size(); ++s) {
    orphans += new_ids.contains(from[s].primary) ? 0 : 1;
    if (from[s].primary == to[s].primary) {
      continue;
    }
    ++moved;
    EXPECT_TRUE(!new_ids.contains(from[s].primary) || !old_ids.contains(to[s].primary))
        << "segment " << s << " moved from shard " << from[s].primary.v << " to " << to[s].primary.v
        << ", and both stay";
  }
  uint32_t joined = 0;
  for (ShardId id : new_ids) {
    joined += old_ids.contains(id) ? 0 : 1;
  }
  const auto segments = static_cast<uint32_t>(from.size());
  EXPECT_LE(moved, orphans + joined * CeilDiv(segments, static_cast<uint32_t>(after.size())));
}

// Carries moves out one by one as a cluster would, checking each step, and expects to arrive.
inline void ExpectMovesLeadThere(const Assignment& from, const Assignment& to) {
  std::vector<std::set<ShardId>> members;
  std::vector<ShardId> primaries;
  size_t shortest = 0;
  for (size_t s = 0; s < from.size(); ++s) {
    members.push_back(MembersOf(from[s]));
    primaries.push_back(from[s].primary);
    const std::set<ShardId> wanted = MembersOf(to[s]);
    shortest += from[s].primary != to[s].primary ? 1 : 0;
    shortest +=
        std::count_if(wanted.begin(), wanted.end(), [&](ShardId id) { return !members[s].contains(id); });
    shortest +=
        std::count_if(members[s].begin(), members[s].end(), [&](ShardId id) { return !wanted.contains(id); });
  }
  const std::vector<Move> moves = PlanMoves(from, to);
  EXPECT_EQ(moves.size(), shortest);
  for (const Move& move : moves) {
    SCOPED_TRACE(ToString(move));
    const uint32_t s = move.segment.v;
    switch (move.kind) {
      case Move::Kind::kRecruit:
        EXPECT_EQ(primaries[s], move.from);
        EXPECT_TRUE(members[s].insert(move.to).second);
        break;
      case Move::Kind::kHandOver:
        EXPECT_EQ(primaries[s], move.from);
        EXPECT_TRUE(members[s].contains(move.to));
        primaries[s] = move.to;
        break;
      case Move::Kind::kDrop:
        EXPECT_NE(primaries[s], move.from);
        EXPECT_EQ(members[s].erase(move.from), 1u);
        break;
    }
    EXPECT_GE(members[s].size(), std::min(MembersOf(from[s]).size(), MembersOf(to[s]).size()));
  }
  for (size_t s = 0; s < to.size(); ++s) {
    EXPECT_EQ(primaries[s], to[s].primary);
    EXPECT_EQ(members[s], MembersOf(to[s]));
  }
}

}  // namespace paceline::ring::testing
