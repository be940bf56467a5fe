// How maps come to a shard.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
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

}  // namespace
}  // namespace paceline::shard
