// What shards and watchers are sent when the map or the tables change.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;

class InstallsTest : public ::testing::Test {
 protected:
  InstallsTest() : cluster_(3, {.replicas = 1, .ring_bits = 3}) {
    cluster_.JoinShards();
    cluster_.Run(absl::Seconds(1));
  }
  FakeShard& shard(const std::string& name = "shard-2") { return cluster_.shards().at(name); }
  // The primary of a segment, which is not shard-2, drops its replica. The segment.
  uint32_t Change() {
    const v1::Map map = Map();
    uint32_t segment = 0;
    const auto fits = [&](const v1::SegmentConfig& config) {
      return config.primary().shard() != 2 && config.replicas_size() == 1;
    };
    while (!fits(map.segments(static_cast<int>(segment)))) ++segment;
    Drop(cluster_, map, segment);
    return segment;
  }
  static void Drop(TestCluster& cluster, const v1::Map& map, uint32_t segment) {
    const v1::SegmentConfig& config = map.segments(static_cast<int>(segment));
    v1::ConfigWish wish;
    wish.set_segment(segment);
    wish.set_epoch(config.epoch());
    wish.set_kind(v1::ConfigWish::DROP);
    *wish.add_members() = config.replicas(0);
    const std::string primary = absl::StrCat("shard-", config.primary().shard());
    const auto reply = cluster.shards().Wish(cluster.core(), primary, {wish});
    ASSERT_THAT(reply, IsOk());
    ASSERT_EQ(reply->segments(0).why_not(), "");
  }
  v1::Map Map() { return MapOf(cluster_); }
  static v1::Map MapOf(TestCluster& cluster) {
    v1::Map map;
    const auto id = cluster.core().WatchMap(0, [&](const auto& newest) { map = *newest; });
    cluster.core().Unwatch(*id);
    return map;
  }
  void ExpectMapIsKnownTo(const std::string& name) {
    EXPECT_EQ(shard(name).map.SerializeAsString(), Map().SerializeAsString()) << name;
  }

  TestCluster cluster_;
};

TEST_F(InstallsTest, OnlyWhatHasChangedTravels) {
  const int before = shard().deltas;
  Change();
  cluster_.shards().Deliver();
  EXPECT_EQ(shard().deltas, before + 1);
  for (const auto& [name, there] : cluster_.shards().all()) ExpectMapIsKnownTo(name);
}

TEST_F(InstallsTest, AShardThatHasMissedMapsIsSentTheirChangesAtOnce) {
  shard().up = false;
  Change();
  Change();
  cluster_.shards().Deliver();
  shard().up = true;
  const int before = shard().deltas;
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(shard().deltas, before + 1);
  ExpectMapIsKnownTo("shard-2");
}

TEST_F(InstallsTest, AShardThatRefusesAChangeIsSentTheWholeMap) {
  shard().refuses_deltas = true;
  Change();
  cluster_.Run(absl::Seconds(2));
  ExpectMapIsKnownTo("shard-2");
}

TEST_F(InstallsTest, AShardThatHasForgottenItsMapIsSentAllOfIt) {
  shard().map.Clear();
  Change();
  cluster_.Run(absl::Seconds(2));
  ExpectMapIsKnownTo("shard-2");
}

TEST_F(InstallsTest, AfterARestartChangesTravelToWhoHasTheMapThatWasStored) {
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(1));
  const int before = shard().deltas;
  shard("shard-0").map.set_version(0);  // it has none that is known
  Change();
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(shard().deltas, before + 1);
  ExpectMapIsKnownTo("shard-2");
  ExpectMapIsKnownTo("shard-0");
}

TEST_F(InstallsTest, TablesTravelOnlyIfTheyHaveChanged) {
  const uint64_t session = cluster_.Opened("ctr");
  ASSERT_THAT(cluster_.OpenTable(session, "weights", SparseSchema()), IsOk());
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(shard().catalogue.tables_size(), 1);
  shard().catalogue.mutable_tables(0)->set_name("as it was sent");
  Change();
  cluster_.Run(absl::Seconds(2));
  ExpectMapIsKnownTo("shard-2");
  EXPECT_EQ(shard().catalogue.tables(0).name(), "as it was sent");
}

TEST_F(InstallsTest, ShardsOfLevelOneAreSentWholeMaps) {
  TestCluster cluster(3, {.replicas = 1, .ring_bits = 3});
  cluster.shards().level = 1;
  cluster.JoinShards();
  cluster.Run(absl::Seconds(1));
  Drop(cluster, MapOf(cluster), 0);
  Drop(cluster, MapOf(cluster), 1);
  cluster.Run(absl::Seconds(2));
  const v1::Map map = MapOf(cluster);
  for (const auto& [name, shard] : cluster.shards().all()) {
    EXPECT_EQ(shard.deltas, 0) << name;
    EXPECT_EQ(shard.map.SerializeAsString(), map.SerializeAsString()) << name;
  }
}

TEST(InstallsBoundTest, FewWholeMapsAreUnderWayAtATime) {
  constexpr uint32_t kShards = 80;
  TestCluster cluster(kShards, {.ring_bits = 7});
  for (uint32_t s = 0; s < kShards; ++s) {
    ASSERT_THAT(cluster.shards().Join(cluster.core(), absl::StrCat("shard-", s)), IsOk());
  }
  EXPECT_EQ(cluster.shards().CallsUnderWay(), 32u);
  EXPECT_GT(cluster.core().NextDeadline(), cluster.clock().now) << "it does not wait by asking again";
  cluster.shards().Deliver();
  for (const auto& [name, shard] : cluster.shards().all()) EXPECT_EQ(shard.map.version(), 1u) << name;
}

TEST_F(InstallsTest, WatchersThatTakeChangesAreSentThem) {
  std::vector<std::shared_ptr<const v1::Map>> changes;
  std::vector<std::shared_ptr<const v1::Map>> maps;
  ASSERT_THAT(cluster_.core().WatchMap(
                  0, [&](auto map) { changes.push_back(map); }, true),
              IsOk());
  ASSERT_THAT(cluster_.core().WatchMap(0, [&](auto map) { maps.push_back(map); }), IsOk());
  const uint32_t segment = Change();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes[0]->has_delta()) << "nothing is known of what it had";
  ASSERT_TRUE(changes[1]->has_delta());
  EXPECT_EQ(changes[1]->delta().from(), changes[0]->version());
  ASSERT_EQ(changes[1]->delta().segments_size(), 1);
  EXPECT_EQ(changes[1]->delta().segments(0).segment(), segment);
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_FALSE(maps[1]->has_delta());
}

}  // namespace
}  // namespace paceline::coordinator
