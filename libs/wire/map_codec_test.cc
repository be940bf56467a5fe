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

}  // namespace
}  // namespace paceline::wire
