// Assign and PlanMoves against their promises (planner.h), over random clusters that grow and shrink. A
// failure names its seed; the same seed replays it.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/ring/placement.h"
#include "libs/ring/planner.h"
#include "libs/ring/test_util/planner_checks.h"
#include "libs/world/random.h"

namespace paceline::ring {
namespace {

using testing::CeilDiv;
using testing::ExpectMovesLeadThere;
using testing::ExpectNothingMovesBetweenStayers;
using testing::ExpectSound;
using testing::Loads;
using testing::MembersOf;
using testing::PrimaryLoads;
using testing::ReplicaLoads;
using testing::Spread;
using world::SplitMix64;
using world::Uniform;

constexpr int kSeeds = 100;
constexpr int kSteps = 12;

// A cluster whose membership wanders.
class Cluster {
 public:
  Cluster(SplitMix64& random, bool zones) : random_(random), zones_(zones) { Join(1 + Uniform(random_, 8)); }

  void Join(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t zone = zones_ ? Uniform(random_, 4) : 0;  // 0: unknown
      shards_.push_back({ShardId(next_id_), zone == 0 ? "" : absl::StrCat("zone-", zone)});
      next_id_ += 1 + static_cast<uint32_t>(Uniform(random_, 3));
    }
  }
  void Leave(uint64_t count) {
    for (; count > 0 && shards_.size() > 1; --count) {
      shards_.erase(shards_.begin() + static_cast<ptrdiff_t>(Uniform(random_, shards_.size())));
    }
  }
  void Wander() {
    switch (Uniform(random_, 4)) {
      case 0:
        return Join(1);
      case 1:
        return Leave(1);
      case 2:
        return Join(Uniform(random_, 4));
      default:
        Leave(Uniform(random_, 4));
        return Join(Uniform(random_, 4));
    }
  }
  const std::vector<Candidate>& shards() const { return shards_; }

 private:
  SplitMix64& random_;
  bool zones_;
  uint32_t next_id_ = 0;
  std::vector<Candidate> shards_;
};

TEST(PlannerPropertyTest, EveryMembershipKeepsThePromises) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SplitMix64 random(seed);
    Cluster cluster(random, seed % 2 == 1);
    const int k = static_cast<int>(Uniform(random, 8));
    const int replicas = static_cast<int>(Uniform(random, 4));
    Assignment now = Assign(std::nullopt, cluster.shards(), replicas, k).value();
    ExpectSound(now, cluster.shards(), replicas, k);
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, " step ", step, " k ", k, " replicas ", replicas));
      const std::vector<Candidate> before = cluster.shards();
      cluster.Wander();
      const Assignment next = Assign(now, cluster.shards(), replicas, k).value();
      ExpectSound(next, cluster.shards(), replicas, k);
      ExpectNothingMovesBetweenStayers(now, before, next, cluster.shards());
      ExpectMovesLeadThere(now, next);
      EXPECT_EQ(Assign(next, cluster.shards(), replicas, k).value(), next) << "a result is its own successor";
      if (HasFailure()) {
        return;
      }
      now = next;
    }
  }
}

TEST(PlannerPropertyTest, OneMoreShardReceivesAndNobodyElse) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    Cluster cluster(random, false);
    const int k = 3 + static_cast<int>(Uniform(random, 6));
    const int replicas = static_cast<int>(Uniform(random, 3));
    Assignment now = Assign(std::nullopt, cluster.shards(), replicas, k).value();
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<Candidate> before = cluster.shards();
      const bool even = Spread(ReplicaLoads(now, before)) <= 1;
      const bool complete = before.size() > static_cast<size_t>(replicas);  // else all get more replicas
      cluster.Join(1);
      const ShardId newcomer = cluster.shards().back().shard;
      const Assignment next = Assign(now, cluster.shards(), replicas, k).value();
      uint32_t moved = 0;
      for (const Move& move : PlanMoves(now, next)) {
        moved += move.kind == Move::Kind::kHandOver ? 1 : 0;
        if (move.kind == Move::Kind::kHandOver || (move.kind == Move::Kind::kRecruit && even && complete)) {
          EXPECT_EQ(move.to, newcomer) << ToString(move);
        }
      }
      EXPECT_LE(moved, CeilDiv(uint32_t{1} << k, static_cast<uint32_t>(cluster.shards().size())));
      now = next;
    }
  }
}

TEST(PlannerPropertyTest, ReplicasOfANewClusterAreBounded) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SplitMix64 random(seed);
    Cluster cluster(random, false);
    const int k = static_cast<int>(Uniform(random, 9));
    const auto n = static_cast<uint32_t>(cluster.shards().size());
    const uint32_t r = std::min(static_cast<uint32_t>(Uniform(random, 4)), n - 1);
    const Assignment fresh = Assign(std::nullopt, cluster.shards(), static_cast<int>(r), k).value();
    for (const auto& [shard, load] : ReplicaLoads(fresh, cluster.shards())) {
      EXPECT_LE(load, CeilDiv((uint32_t{1} << k) * r, n - r)) << "seed " << seed;
    }
  }
}

// However the previous assignment came about — failovers, moves half carried out — the next one is sound, and
// no more primaries move than balance needs.
TEST(PlannerPropertyTest, MendsAnyPreviousAssignment) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SplitMix64 random(seed);
    Cluster cluster(random, seed % 2 == 1);
    const int k = static_cast<int>(Uniform(random, 8));
    const int replicas = static_cast<int>(Uniform(random, 4));
    Assignment skewed(size_t{1} << k);
    for (Owners& owners : skewed) {
      const auto any = [&] { return ShardId(static_cast<uint32_t>(Uniform(random, 12))); };
      owners.primary = any();
      for (uint64_t left = Uniform(random, 4); left > 0; --left) {
        const ShardId shard = any();
        if (!MembersOf(owners).contains(shard)) {
          owners.replicas.push_back(shard);
        }
      }
    }
    const Assignment next = Assign(skewed, cluster.shards(), replicas, k).value();
    ExpectSound(next, cluster.shards(), replicas, k);
    ExpectMovesLeadThere(skewed, next);
    EXPECT_EQ(Assign(next, cluster.shards(), replicas, k).value(), next);

    // The fewest moves: each shard keeps all it has up to its share, the fullest rounding up.
    std::vector<uint32_t> loads;
    const Loads before = PrimaryLoads(skewed, cluster.shards());
    for (const Candidate& candidate : cluster.shards()) {
      loads.push_back(before.at(candidate.shard));
    }
    std::sort(loads.rbegin(), loads.rend());
    uint32_t kept = 0;
    uint32_t expected_kept = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      const auto share =
          static_cast<uint32_t>(skewed.size() / loads.size() + (i < skewed.size() % loads.size() ? 1 : 0));
      expected_kept += std::min(loads[i], share);
    }
    for (size_t s = 0; s < skewed.size(); ++s) {
      kept += skewed[s].primary == next[s].primary ? 1 : 0;
    }
    EXPECT_EQ(kept, expected_kept);
  }
}

TEST(PlannerPropertyTest, EveryKeyHasOneOwner) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SplitMix64 random(seed);
    Cluster cluster(random, false);
    const int k = static_cast<int>(Uniform(random, 8));
    const Assignment assignment = Assign(std::nullopt, cluster.shards(), 1, k).value();
    std::vector<SegmentConfig> segments;
    for (const Owners& owners : assignment) {
      SegmentConfig& config = segments.emplace_back();
      config.epoch = Epoch(1);
      config.primary = {owners.primary, Incarnation(1)};
      for (ShardId shard : owners.replicas) {
        config.replicas.push_back({shard, Incarnation(1)});
      }
    }
    std::vector<ShardInfo> shards;
    for (const Candidate& candidate : cluster.shards()) {
      shards.push_back({candidate.shard, ToString(candidate.shard), "host:1", Incarnation(1)});
    }
    const SegmentMap map = SegmentMap::Create(MapVersion(1), k, segments, shards).value();
    EXPECT_EQ(AssignmentOf(map), assignment);
    const Placement placement = Placement::Sparse(TableId(1), k).value();
    for (int i = 0; i < 200; ++i) {
      const SegmentId segment = placement.Of(random.Next());
      ASSERT_TRUE(map.Contains(segment));
      const ShardId owner = map.Primary(segment).shard;
      uint32_t claims = 0;
      for (const ShardInfo& shard : map.shards()) {
        const auto held = map.SegmentsOf(shard.id);
        const bool holds = std::find(held.begin(), held.end(), segment) != held.end();
        claims += holds && map.Primary(segment).shard == shard.id ? 1 : 0;
      }
      EXPECT_EQ(claims, 1u) << "segment " << segment.v << " of shard " << owner.v;
    }
  }
}

}  // namespace
}  // namespace paceline::ring
