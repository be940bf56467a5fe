#include "libs/wire/map_codec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::IsOkAndHolds;
using paceline::testing::StatusIs;

v1::Map SomeMap() {
  v1::Map map;
  map.set_version(4);
  map.set_ring_bits(1);
  for (uint32_t s = 0; s < 2; ++s) {
    v1::SegmentConfig* segment = map.add_segments();
    segment->set_epoch(s + 1);
    segment->mutable_primary()->set_shard(s);
    segment->mutable_primary()->set_incarnation(s + 10);
    segment->add_replicas()->set_shard(1 - s);
    segment->mutable_replicas(0)->set_incarnation(1 - s + 10);
    segment->set_emptied_in(s);
    segment->set_lost(s == 1);
    v1::ShardInfo* shard = map.add_shards();
    shard->set_shard(s);
    shard->set_name("shard-" + std::to_string(s));
    shard->set_address("127.0.0.1:" + std::to_string(7000 + s));
    shard->set_incarnation(s + 10);
  }
  return map;
}

TEST(MapCodecTest, RoundTrips) {
  const auto map = MapFromProto(SomeMap());
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->Primary(SegmentId(1)).shard, ShardId(1));
  EXPECT_EQ(map->Members(SegmentId(1)).size(), 2u);
  EXPECT_TRUE(map->ConfigOf(SegmentId(1)).lost);
  EXPECT_EQ(ToProto(*map).SerializeAsString(), SomeMap().SerializeAsString());
}

TEST(MapCodecTest, RefusesAMapThatBreaksItsInvariants) {
  v1::Map map = SomeMap();
  map.mutable_segments(0)->mutable_replicas(0)->set_shard(0);  // primary and replica on one shard
  EXPECT_THAT(MapFromProto(map), StatusIs(absl::StatusCode::kInvalidArgument));
  map = SomeMap();
  map.mutable_segments()->RemoveLast();
  EXPECT_THAT(MapFromProto(map), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Of version 6, since version 4: segment 1 has another primary, shard 0 another address; shard 2 is new.
v1::Map SomeDelta() {
  v1::Map map;
  map.set_version(6);
  map.set_ring_bits(1);
  map.set_feature_level(2);
  map.mutable_delta()->set_from(4);
  v1::MapDelta::Segment* changed = map.mutable_delta()->add_segments();
  changed->set_segment(1);
  changed->mutable_config()->set_epoch(3);
  changed->mutable_config()->mutable_primary()->set_shard(2);
  changed->mutable_config()->mutable_primary()->set_incarnation(12);
  *map.mutable_delta()->add_shards() = SomeMap().shards(0);
  map.mutable_delta()->mutable_shards(0)->set_address("elsewhere:1");
  v1::ShardInfo* added = map.mutable_delta()->add_shards();
  added->set_shard(2);
  added->set_name("shard-2");
  added->set_address("127.0.0.1:7002");
  added->set_incarnation(12);
  return map;
}

TEST(MapCodecTest, WhatHasChangedMakesTheNextMap) {
  const auto have = MapFromProto(SomeMap());
  const auto next = NextMap(SomeDelta(), &*have);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->version(), MapVersion(6));
  EXPECT_EQ(next->feature_level(), 2u);
  EXPECT_EQ(next->ConfigOf(SegmentId(0)), have->ConfigOf(SegmentId(0)));
  EXPECT_EQ(next->Primary(SegmentId(1)).shard, ShardId(2));
  EXPECT_EQ(next->Members(SegmentId(1)).size(), 1u);
  EXPECT_EQ(next->FindShard(ShardId(0))->address, "elsewhere:1");
  EXPECT_EQ(next->shards().size(), 3u);
}

TEST(MapCodecTest, AShardThatIsForgottenIsNoLongerListed) {
  const auto have = MapFromProto(SomeMap());
  v1::Map map = SomeDelta();
  map.mutable_delta()->add_forgotten(1);
  EXPECT_THAT(NextMap(map, &*have), StatusIs(absl::StatusCode::kInvalidArgument)) << "segment 0 names it";
  map.mutable_delta()->add_segments()->set_segment(0);
  *map.mutable_delta()->mutable_segments(1)->mutable_config() = SomeMap().segments(0);
  map.mutable_delta()->mutable_segments(1)->mutable_config()->clear_replicas();
  const auto next = NextMap(map, &*have);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->FindShard(ShardId(1)), nullptr);
}

TEST(MapCodecTest, WhatHasChangedFitsLaterVersionsAndNoEarlierOnes) {
  EXPECT_TRUE(Follows(SomeMap(), MapVersion()));
  EXPECT_FALSE(Follows(SomeDelta(), MapVersion()));
  EXPECT_FALSE(Follows(SomeDelta(), MapVersion(3)));
  EXPECT_TRUE(Follows(SomeDelta(), MapVersion(4)));
  EXPECT_TRUE(Follows(SomeDelta(), MapVersion(5)));
  EXPECT_THAT(NextMap(SomeDelta(), nullptr), StatusIs(absl::StatusCode::kInvalidArgument));
  v1::Map earlier = SomeMap();
  earlier.set_version(3);
  const auto have = MapFromProto(earlier);
  EXPECT_THAT(NextMap(SomeDelta(), &*have), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(MapCodecTest, RefusesAChangeOfWhatIsNotThere) {
  const auto have = MapFromProto(SomeMap());
  v1::Map map = SomeDelta();
  map.mutable_delta()->mutable_segments(0)->set_segment(2);
  EXPECT_THAT(NextMap(map, &*have), StatusIs(absl::StatusCode::kInvalidArgument));
  map.mutable_delta()->clear_shards();
  EXPECT_THAT(NextMap(map, &*have), StatusIs(absl::StatusCode::kInvalidArgument));
  map = SomeDelta();
  map.set_ring_bits(2);
  EXPECT_THAT(NextMap(map, &*have), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace paceline::wire
