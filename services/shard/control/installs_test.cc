// How maps come to a shard, and which segments they give hosts.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Version `version`, since `from`: segment 1 is in another epoch.
v1::InstallRequest Delta(uint64_t from, uint64_t version) {
  v1::InstallRequest request;
  v1::Map& map = *request.mutable_map();
  map.set_version(version);
  map.set_ring_bits(1);
  map.set_feature_level(2);
  map.mutable_delta()->set_from(from);
  v1::MapDelta::Segment& changed = *map.mutable_delta()->add_segments();
  changed.set_segment(1);
  changed.mutable_config()->set_epoch(2);
  changed.mutable_config()->mutable_primary()->set_incarnation(1);
  return request;
}

TEST_F(ShardTest, TakesWhatHasChangedInTheMapIfItHasTheVersionBefore) {
  const auto version = [&](const v1::InstallRequest& request) {
    const auto reply = shard.Install(request);
    EXPECT_THAT(reply, IsOk());
    return reply->map_version();
  };
  EXPECT_EQ(version(Delta(2, 3)), 1u) << "it lacks version 2, and says so";
  EXPECT_EQ(shard.view()->map->EpochOf(SegmentId(1)), Epoch(1));
  EXPECT_EQ(version(Delta(1, 3)), 3u);
  EXPECT_EQ(shard.view()->map->EpochOf(SegmentId(0)), Epoch(1));
  EXPECT_EQ(shard.view()->map->EpochOf(SegmentId(1)), Epoch(2));
  EXPECT_EQ(shard.context().host(SegmentId(1)).epoch(), Epoch(2));
  EXPECT_EQ(version(Delta(1, 2)), 3u) << "it came late";
  v1::InstallRequest wrong = Delta(3, 4);
  wrong.mutable_map()->mutable_delta()->mutable_segments(0)->set_segment(7);
  EXPECT_THAT(shard.Install(wrong), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(shard.view()->map_version(), MapVersion(3));
}

TEST_F(ShardTest, AShardWithoutAMapTakesNoChangesOfOne) {
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
  const auto reply = other.Install(Delta(1, 3));
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->map_version(), 0u);
}

TEST_F(ShardTest, TakesAMapThatWasEncodedForAllShards) {
  v1::InstallRequest request;
  request.set_whole_map(MapOf(2, 1, /*epoch=*/2).map().SerializeAsString());
  request.mutable_map()->set_version(2);
  ASSERT_THAT(shard.Install(request), IsOk());
  EXPECT_EQ(shard.view()->map->EpochOf(SegmentId(1)), Epoch(2));
  request.set_whole_map("\xff");
  EXPECT_THAT(shard.Install(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("whole_map")));
}

TEST_F(ShardTest, OnlySegmentsThatConcernItHaveHosts) {
  v1::InstallRequest request = MapOf(1, 1);
  v1::Map& map = *request.mutable_map();
  map.set_ring_bits(3);
  for (int s = 2; s < 8; ++s) *map.add_segments() = map.segments(0);
  *map.add_shards() = map.shards(0);
  map.mutable_shards(1)->set_shard(1);
  map.mutable_shards(1)->set_name("shard-1");
  for (int s = 0; s < 8; ++s) map.mutable_segments(s)->mutable_primary()->set_shard(s % 4 == 1 ? 0 : 1);
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
  ASSERT_THAT(other.Install(request), IsOk());
  const auto hosts = [&other] {
    std::set<uint32_t> segments;
    other.context().ForEachSegment([&](SegmentHost& host) { segments.insert(host.id().v); }, [] {});
    return segments;
  };
  EXPECT_THAT(hosts(), ElementsAre(1, 5));
  map.set_version(2);
  map.mutable_segments(6)->set_epoch(2);
  map.mutable_segments(6)->mutable_primary()->set_shard(0);
  ASSERT_THAT(other.Install(request), IsOk());
  EXPECT_THAT(hosts(), ElementsAre(1, 5, 6));
  EXPECT_NE(other.context().host(SegmentId(6)).primary(), nullptr);
  EXPECT_EQ(other.context().host(SegmentId(3)).epoch(), Epoch(1)) << "it is asked about a foreign one";
  EXPECT_EQ(other.context().host(SegmentId(3)).primary(), nullptr);
}

// An empty copy of a segment that has moved here would pass for one that is in sync.
TEST_F(ShardTest, AMemberThatComesLaterDoesNotBeginEmpty) {
  v1::InstallRequest request = MapOf(1, 1);
  v1::Map& map = *request.mutable_map();
  *map.add_shards() = map.shards(0);
  map.mutable_shards(1)->set_shard(1);
  map.mutable_shards(1)->set_name("shard-1");
  map.mutable_segments(1)->mutable_primary()->set_shard(1);
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
  ASSERT_THAT(other.Install(request), IsOk());
  map.set_version(2);
  map.mutable_segments(1)->set_epoch(2);
  map.mutable_segments(1)->add_replicas()->set_incarnation(1);
  ASSERT_THAT(other.Install(request), IsOk());
  const SegmentHost& host = other.context().host(SegmentId(1));
  EXPECT_EQ(host.role(), SegmentHost::Role::kReplica);
  EXPECT_EQ(host.state(), nullptr);
}

}  // namespace
}  // namespace paceline::shard
