#include "libs/wire/compact_map.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

v1::Map MapOf(uint32_t shards, int ring_bits) {
  v1::Map map;
  map.set_version(7);
  map.set_ring_bits(static_cast<uint32_t>(ring_bits));
  map.set_cluster(99);
  map.set_feature_level(2);
  for (uint32_t i = 0; i < shards; ++i) {
    v1::ShardInfo& shard = *map.add_shards();
    shard.set_shard(i);
    shard.set_name("shard-" + std::to_string(i));
    shard.set_incarnation(1000 + i);
  }
  for (uint32_t s = 0; s < uint32_t{1} << ring_bits; ++s) {
    v1::SegmentConfig& config = *map.add_segments();
    config.set_epoch(1 + s % 3);
    config.mutable_primary()->set_shard(s % shards);
    config.mutable_primary()->set_incarnation(1000 + s % shards);
    if (s % 5 == 4) continue;  // it has no replica
    v1::Member& replica = *config.add_replicas();
    replica.set_shard((s + 1) % shards);
    replica.set_incarnation(1000 + (s + 1) % shards);
  }
  return map;
}

std::string Bytes(const v1::Map& map) {
  return map.SerializeAsString();
}

TEST(CompactMapTest, IsTheSameMapAfterwards) {
  for (const v1::Map& map : {MapOf(3, 4), MapOf(1, 0), v1::Map()}) {
    const absl::StatusOr<v1::Map> back = Expand(Compact(map));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(Bytes(*back), Bytes(map));
  }
}

TEST(CompactMapTest, WhatIsRareIsKept) {
  v1::Map map = MapOf(3, 4);
  map.mutable_segments(2)->set_lost(true);
  map.mutable_segments(5)->set_emptied_in(2);
  map.mutable_segments(5)->set_change_floor(12);
  map.mutable_segments(9)->set_change_floor(13);
  map.mutable_segments(11)->mutable_primary()->set_incarnation(17);  // an earlier start of its shard
  const v1::CompactMap compact = Compact(map);
  EXPECT_EQ(compact.others_size(), 2);
  const absl::StatusOr<v1::Map> back = Expand(compact);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Bytes(*back), Bytes(map));
}

TEST(CompactMapTest, IsSmall) {
  const v1::Map map = MapOf(1000, 16);
  const size_t compact = Compact(map).ByteSizeLong();
  EXPECT_LT(compact, 500'000u);
  EXPECT_GT(Bytes(map).size(), 2.5 * static_cast<double>(compact));
}

TEST(CompactMapTest, WhatDoesNotFitTogetherIsRefused) {
  const v1::CompactMap good = Compact(MapOf(3, 4));
  const auto refused = [&](auto change, const std::string& why) {
    v1::CompactMap bad = good;
    change(bad);
    EXPECT_THAT(Expand(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused([](auto& m) { m.add_copies(1); }, "copies has 17 entries");
  refused([](auto& m) { m.add_change_floors(1); }, "change_floors has 1 entries");
  refused([](auto& m) { m.add_places(0); }, "the sum of copies is");
  refused([](auto& m) { m.set_copies(0, UINT32_MAX); }, "the sum of copies is");
  refused([](auto& m) { m.set_places(3, 3); }, "place 3; there are 3 members");
  refused([](auto& m) { m.add_others()->set_segment(1); }, "1 of others");
  refused([](auto& m) { m.mutable_rest()->add_segments(); }, "its rest has segments");
  refused([](auto& m) { m.mutable_rest()->mutable_delta(); }, "or a delta");
  refused(
      [](auto& m) {
        m.mutable_places()->Truncate(m.places_size() - static_cast<int>(m.copies(0)));
        m.set_copies(0, 0);
      },
      "segment 0 has no copies");
  refused([](auto& m) { m.mutable_epochs()->Resize(70'000, 1); }, "70000 segments");
}

}  // namespace
}  // namespace paceline::wire
