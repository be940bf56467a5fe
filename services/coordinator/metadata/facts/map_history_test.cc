#include "services/coordinator/metadata/facts/map_history.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/wire/compact_map.h"

namespace paceline::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Version 1, of 8 segments and 2 shards.
v1::Map FirstMap() {
  v1::Map map;
  map.set_version(1);
  map.set_ring_bits(3);
  map.set_cluster(7);
  map.set_feature_level(2);
  for (uint32_t s = 0; s < 8; ++s) {
    v1::SegmentConfig& config = *map.add_segments();
    config.set_epoch(1);
    config.mutable_primary()->set_shard(s % 2);
    config.add_replicas()->set_shard(1 - s % 2);
  }
  for (uint32_t s = 0; s < 2; ++s) {
    map.add_shards()->set_shard(s);
    map.mutable_shards(static_cast<int>(s))->set_address("host");
  }
  return map;
}

class MapHistoryTest : public ::testing::Test {
 protected:
  MapHistoryTest() { history_.Add(std::make_shared<const v1::Map>(map_), nullptr); }
  // The next version, in which the segment is in another epoch.
  void Change(int segment) {
    const v1::Map before = map_;
    v1::SegmentConfig& config = *map_.mutable_segments(segment);
    config.set_epoch(config.epoch() + 1);
    Commit(before);
  }
  void Commit(const v1::Map& before) {
    map_.set_version(before.version() + 1);
    const MapChange change = MapChangeOf(before, map_);
    history_.Add(std::make_shared<const v1::Map>(map_), &change);
  }
  // The segments that a receiver of this version is sent.
  std::vector<uint32_t> SentSince(uint64_t known) {
    std::vector<uint32_t> segments;
    const auto map = history_.Since(known);
    if (map == nullptr) return {99};  // the whole map
    for (const auto& changed : map->delta().segments()) segments.push_back(changed.segment());
    return segments;
  }

  v1::Map map_ = FirstMap();
  MapHistory history_;
};

TEST_F(MapHistoryTest, TheCompactFormIsThatOfTheNewest) {
  const auto expanded = [&] {
    v1::CompactMap compact;
    EXPECT_TRUE(compact.ParseFromString(history_.Compact()));
    return wire::Expand(compact)->SerializeAsString();
  };
  EXPECT_EQ(expanded(), map_.SerializeAsString());
  Change(3);
  EXPECT_EQ(expanded(), map_.SerializeAsString());
}

TEST_F(MapHistoryTest, TellsWhatEachReceiverLacks) {
  Change(3);
  Change(5);
  Change(3);
  EXPECT_THAT(SentSince(1), ElementsAre(3, 5));
  EXPECT_THAT(SentSince(2), ElementsAre(3, 5));
  EXPECT_THAT(SentSince(3), ElementsAre(3));
  const auto map = history_.Since(1);
  EXPECT_EQ(map->version(), 4u);
  EXPECT_EQ(map->cluster(), 7u);
  EXPECT_EQ(map->feature_level(), 2u);
  EXPECT_EQ(map->delta().from(), 1u);
  EXPECT_EQ(map->delta().segments(0).config().epoch(), 3u);
  EXPECT_THAT(map->segments(), IsEmpty());
  EXPECT_THAT(map->shards(), IsEmpty());
  EXPECT_EQ(map, history_.Since(1)) << "it is made once for all of a version";
}

TEST_F(MapHistoryTest, AReceiverWithoutAKnownVersionNeedsTheWholeMap) {
  Change(3);
  EXPECT_EQ(history_.Since(0), nullptr);
  EXPECT_EQ(history_.Since(2), nullptr) << "it lacks nothing";
  EXPECT_EQ(history_.Since(9), nullptr);
  MapHistory restarted;
  restarted.Add(std::make_shared<const v1::Map>(map_), nullptr);
  EXPECT_EQ(restarted.Since(1), nullptr);
}

TEST_F(MapHistoryTest, IfMostHasChangedTheWholeMapIsSent) {
  for (int segment = 0; segment < 4; ++segment) Change(segment);
  EXPECT_THAT(SentSince(1), ElementsAre(0, 1, 2, 3));
  Change(4);
  EXPECT_EQ(history_.Since(1), nullptr);
  EXPECT_THAT(SentSince(2), ElementsAre(1, 2, 3, 4));
}

TEST_F(MapHistoryTest, ItIsBounded) {
  for (int i = 0; i < 100; ++i) Change(i % 2);
  EXPECT_EQ(history_.Since(1), nullptr);
  EXPECT_THAT(SentSince(80), ElementsAre(0, 1)) << "32 changes are kept for a ring of 8";
}

TEST_F(MapHistoryTest, ShardsThatComeChangeAndGoAreNamed) {
  v1::Map before = map_;
  map_.add_shards()->set_shard(2);
  Commit(before);
  EXPECT_EQ(history_.Since(1)->delta().shards(0).shard(), 2u);
  before = map_;
  map_.mutable_shards(0)->set_address("elsewhere");
  map_.mutable_shards()->RemoveLast();
  Commit(before);
  const auto map = history_.Since(1);
  ASSERT_EQ(map->delta().shards_size(), 1);
  EXPECT_EQ(map->delta().shards(0).address(), "elsewhere");
  EXPECT_THAT(map->delta().forgotten(), ElementsAre(2));
}

TEST_F(MapHistoryTest, EveryFieldOfASegmentCounts) {
  const auto changed = [](auto change) {
    v1::Map after = FirstMap();
    change(*after.mutable_segments(6));
    return MapChangeOf(FirstMap(), after).segments;
  };
  EXPECT_THAT(changed([](auto&) {}), IsEmpty());
  EXPECT_THAT(changed([](auto& config) { config.set_epoch(2); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.mutable_primary()->set_incarnation(2); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.mutable_replicas(0)->set_shard(5); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.clear_replicas(); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.set_emptied_in(1); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.set_change_floor(1); }), ElementsAre(6));
  EXPECT_THAT(changed([](auto& config) { config.set_lost(true); }), ElementsAre(6));
}

TEST_F(MapHistoryTest, TheWholeMapIsEncodedAnewForEachVersion) {
  v1::Map read;
  ASSERT_TRUE(read.ParseFromString(history_.Encoded()));
  EXPECT_EQ(read.version(), 1u);
  Change(1);
  ASSERT_TRUE(read.ParseFromString(history_.Encoded()));
  EXPECT_EQ(read.version(), 2u);
}

}  // namespace
}  // namespace paceline::coordinator
