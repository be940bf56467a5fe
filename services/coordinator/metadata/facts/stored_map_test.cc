#include "services/coordinator/metadata/facts/stored_map.h"

#include <memory>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/facts/facts.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRingBits = 4;

v1::Map MapOf(uint64_t version, uint32_t level, int ring_bits = kRingBits) {
  v1::Map map;
  map.set_version(version);
  map.set_ring_bits(static_cast<uint32_t>(ring_bits));
  map.set_cluster(9);
  if (level > 1) map.set_feature_level(level);
  for (int s = 0; s < 1 << ring_bits; ++s) {
    v1::SegmentConfig& config = *map.add_segments();
    config.set_epoch(1);
    config.mutable_primary()->set_shard(static_cast<uint32_t>(s) % 3);
    config.mutable_primary()->set_incarnation(7);
  }
  for (uint32_t shard = 0; shard < 3; ++shard) map.add_shards()->set_shard(shard);
  return map;
}

// The next version, with these segments in another epoch.
v1::Map Changed(v1::Map map, const std::vector<int>& segments) {
  map.set_version(map.version() + 1);
  for (const int s : segments) map.mutable_segments(s)->set_epoch(map.segments(s).epoch() + 1);
  return map;
}

class StoredMapTest : public ::testing::Test {
 protected:
  std::unique_ptr<Facts> Load(int ring_bits = kRingBits) {
    auto facts = Facts::Load(store_, ring_bits, 9);
    EXPECT_THAT(facts, IsOk());
    return *std::move(facts);
  }
  static absl::Status Commit(Facts& facts, v1::Map map) {
    Changes changes;
    changes.map = std::move(map);
    return facts.Commit(std::move(changes));
  }
  void ExpectStored(const v1::Map& map) {
    const auto stored = ReadMap(store_);
    ASSERT_THAT(stored, IsOk());
    ASSERT_TRUE(stored->has_value());
    EXPECT_EQ((*stored)->SerializeAsString(), map.SerializeAsString());
  }
  size_t Chunks() { return store_.List(keys::kMapChunks)->size(); }
  uint64_t VersionOf(const std::string& key) { return (*store_.Get(key))->version; }

  FaultyStore store_{*MemoryStore::Open(std::make_shared<MemoryStore::Disk>())};
};

TEST_F(StoredMapTest, AMapThatAllShardsCanFollowIsHeldInChunks) {
  auto facts = Load();
  ASSERT_THAT(Commit(*facts, MapOf(1, 2)), IsOk());
  EXPECT_EQ(Chunks(), 4u) << "a small ring too";
  ExpectStored(MapOf(1, 2));
  EXPECT_EQ(Load()->map()->SerializeAsString(), MapOf(1, 2).SerializeAsString());
}

TEST_F(StoredMapTest, OneChangedSegmentWritesItsChunk) {
  auto facts = Load();
  ASSERT_THAT(Commit(*facts, MapOf(1, 2)), IsOk());
  const uint64_t other = VersionOf(keys::MapChunk(0));
  const uint64_t own = VersionOf(keys::MapChunk(2));
  ASSERT_THAT(Commit(*facts, Changed(MapOf(1, 2), {9})), IsOk());
  EXPECT_EQ(VersionOf(keys::MapChunk(0)), other);
  EXPECT_GT(VersionOf(keys::MapChunk(2)), own);
  ExpectStored(Changed(MapOf(1, 2), {9}));
}

TEST_F(StoredMapTest, AMapInOneValueIsReadAndGoesOnInChunks) {
  auto facts = Load();
  ASSERT_THAT(Commit(*facts, MapOf(1, 1)), IsOk());
  EXPECT_EQ(Chunks(), 0u);
  facts = Load();
  EXPECT_EQ(facts->map()->SerializeAsString(), MapOf(1, 1).SerializeAsString());
  v1::Map next = Changed(MapOf(1, 1), {3});
  ASSERT_THAT(Commit(*facts, next), IsOk());
  EXPECT_EQ(Chunks(), 0u) << "a shard of level 1 is left, and maybe a coordinator";
  next = Changed(next, {4});
  next.set_feature_level(2);
  ASSERT_THAT(Commit(*facts, next), IsOk());
  EXPECT_EQ(Chunks(), 4u);
  ExpectStored(next);
  ASSERT_THAT(Commit(*Load(), Changed(next, {15})), IsOk());
  ExpectStored(Changed(next, {15}));
}

// Half of a map would be another one under its number.
TEST_F(StoredMapTest, ACommitInDoubtIsUndoneInAllChunks) {
  auto facts = Load();
  for (const uint32_t level : {1u, 2u}) {
    const v1::Map before = level == 1 ? MapOf(1, 1) : Changed(MapOf(1, 2), {8});
    ASSERT_THAT(Commit(*facts, before), IsOk());
    v1::Map lost = Changed(before, {0, 6, 15});
    lost.set_feature_level(2);
    for (const auto fault :
         {FaultyStore::Fault::kFailAfter, FaultyStore::Fault::kFailBefore, FaultyStore::Fault::kFailLate}) {
      store_.Plan(fault, 1);
      EXPECT_THAT(Commit(*facts, lost), StatusIs(StatusCode::kUnavailable));
      Changes other;
      other.jobs.emplace_back().set_id(1);
      ASSERT_THAT(facts->Commit(other), IsOk());
      ExpectStored(before);
      EXPECT_EQ(Chunks(), level == 1 ? 0u : 4u);
      facts = Load();
    }
  }
}

TEST_F(StoredMapTest, TheFirstMapOfALargeRingIsWrittenInSteps) {
  auto facts = Load(16);
  v1::Map map = MapOf(1, 2, 16);
  for (v1::SegmentConfig& config : *map.mutable_segments()) config.set_change_floor(UINT64_MAX);
  store_.Plan(FaultyStore::Fault::kFailAfter, 1);
  EXPECT_THAT(Commit(*facts, map), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(facts->map(), nullptr);
  EXPECT_EQ(Load(16)->map(), nullptr);
  facts = Load(16);
  const int before = store_.commits();
  ASSERT_THAT(Commit(*facts, map), IsOk());
  EXPECT_EQ(store_.commits(), before + 2);
  EXPECT_EQ(Chunks(), 64u);
  ExpectStored(map);
}

TEST_F(StoredMapTest, AMissingChunkIsNoticed) {
  ASSERT_THAT(Commit(*Load(), MapOf(1, 2)), IsOk());
  ASSERT_THAT(store_.Commit({}, {Write::Delete(keys::MapChunk(1))}), IsOk());
  EXPECT_THAT(ReadMap(store_), StatusIs(StatusCode::kDataLoss, HasSubstr("12 segments")));
}

TEST(MapChunkTest, ARingHasAtMostSixtyFour) {
  EXPECT_EQ(MapChunkOf(1), 1u);
  EXPECT_EQ(MapChunkOf(64), 16u);
  EXPECT_EQ(MapChunkOf(4096), 64u);
  EXPECT_EQ(MapChunkOf(65536), 1024u);
}

TEST(MapHeaderTest, EveryFieldOfTheMapIsStored) {
  std::vector<std::string> names;
  const auto* map = v1::Map::descriptor();
  for (int i = 0; i < map->field_count(); ++i) names.push_back(std::string(map->field(i)->name()));
  EXPECT_THAT(names,
              ElementsAre("version", "ring_bits", "segments", "shards", "cluster", "feature_level", "delta"))
      << "HeaderOf, in stored_map.cc, and MapHistory copy it field by field";
}

}  // namespace
}  // namespace paceline::coordinator
