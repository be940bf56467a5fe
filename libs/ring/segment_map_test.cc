#include "libs/ring/segment_map.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::ring {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Member M(uint32_t shard, uint64_t incarnation = 1) {
  return {ShardId(shard), Incarnation(incarnation)};
}

ShardInfo Shard(uint32_t id, uint64_t incarnation = 1) {
  return {ShardId(id), absl::StrCat("shard-", id), absl::StrCat("host-", id, ":7071"),
          Incarnation(incarnation)};
}

// The parts of a valid map of four segments on three shards; each test spoils one of them.
struct Ingredients {
  MapVersion version{7};
  int ring_bits = 2;
  std::vector<SegmentConfig> segments{
      {Epoch(1), M(0), {M(1)}},
      {Epoch(5), M(2, 8), {M(0), M(1)}},
      {Epoch(2), M(1), {}},
      {Epoch(1), M(1), {M(2, 9)}},
  };
  std::vector<ShardInfo> shards{Shard(2, 9), Shard(0), Shard(1), Shard(4)};

  absl::StatusOr<SegmentMap> Make() const { return SegmentMap::Create(version, ring_bits, segments, shards); }
};

TEST(SegmentMapTest, AnswersFromItsParts) {
  const Ingredients in;
  const SegmentMap map = in.Make().value();
  EXPECT_EQ(map.version(), MapVersion(7));
  EXPECT_EQ(map.ring_bits(), 2);
  ASSERT_EQ(map.SegmentCount(), 4u);
  for (uint32_t s = 0; s < 4; ++s) {
    EXPECT_EQ(map.ConfigOf(SegmentId(s)), in.segments[s]);
    EXPECT_EQ(map.EpochOf(SegmentId(s)), in.segments[s].epoch);
    EXPECT_EQ(map.Primary(SegmentId(s)), in.segments[s].primary);
  }
  EXPECT_THAT(map.Members(SegmentId(1)), ElementsAre(M(2, 8), M(0), M(1)));
  EXPECT_TRUE(map.Contains(SegmentId(3)));
  EXPECT_FALSE(map.Contains(SegmentId(4)));
}

TEST(SegmentMapTest, ListsShardsByIdWithTheirSegments) {
  const SegmentMap map = Ingredients().Make().value();
  EXPECT_THAT(map.shards(), ElementsAre(Shard(0), Shard(1), Shard(2, 9), Shard(4)));
  EXPECT_THAT(map.SegmentsOf(ShardId(0)), ElementsAre(SegmentId(0), SegmentId(1)));
  EXPECT_THAT(map.SegmentsOf(ShardId(1)),
              ElementsAre(SegmentId(0), SegmentId(1), SegmentId(2), SegmentId(3)));
  EXPECT_THAT(map.SegmentsOf(ShardId(2)), ElementsAre(SegmentId(1), SegmentId(3)));
  EXPECT_THAT(map.SegmentsOf(ShardId(4)), IsEmpty());
  EXPECT_THAT(map.SegmentsOf(ShardId(3)), IsEmpty());
  EXPECT_EQ(map.FindShard(ShardId(3)), nullptr);
  ASSERT_NE(map.FindShard(ShardId(2)), nullptr);
  EXPECT_EQ(map.FindShard(ShardId(2))->address, "host-2:7071");
}

TEST(SegmentMapTest, ACopyStandsOnItsOwn) {
  auto first = std::make_unique<SegmentMap>(Ingredients().Make().value());
  const SegmentMap copy = *first;
  first.reset();
  EXPECT_THAT(copy.Members(SegmentId(3)), ElementsAre(M(1), M(2, 9)));
  EXPECT_EQ(copy.FindShard(ShardId(0))->name, "shard-0");
}

TEST(SegmentMapTest, ALaterVersionDiffersInWhatIsNamed) {
  Ingredients in;
  const SegmentMap before = in.Make().value();
  in.segments[0] = {Epoch(2), M(1), {}};
  in.segments[2] = {Epoch(3), M(4), {M(0), M(2, 9)}, Epoch(3), 5, true};
  const auto after =
      before.With(MapVersion(8), 2, {{SegmentId(0), in.segments[0]}, {SegmentId(2), in.segments[2]}});
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(after->version(), MapVersion(8));
  EXPECT_EQ(after->feature_level(), 2u);
  for (uint32_t s = 0; s < 4; ++s) EXPECT_EQ(after->ConfigOf(SegmentId(s)), in.segments[s]);
  EXPECT_THAT(after->SegmentsOf(ShardId(0)), ElementsAre(SegmentId(1), SegmentId(2)));
  EXPECT_THAT(after->SegmentsOf(ShardId(1)), ElementsAre(SegmentId(0), SegmentId(1), SegmentId(3)));
  EXPECT_THAT(before.SegmentsOf(ShardId(4)), IsEmpty());
  const auto refused = [&](SegmentId segment, const SegmentConfig& config) {
    return before.With(MapVersion(8), 1, {{segment, config}}).status();
  };
  EXPECT_THAT(refused(SegmentId(4), in.segments[0]), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refused(SegmentId(0), {Epoch(2), M(7), {}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refused(SegmentId(0), {Epoch(2), M(1), {M(1)}}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SegmentMapTest, ManyVersionsLaterItIsAsIfItWasMadeAtOnce) {
  Ingredients in;
  SegmentMap map = in.Make().value();
  for (uint32_t i = 1; i <= 60; ++i) {
    SegmentConfig& config = in.segments[i % 4];
    config.epoch = Epoch(config.epoch.v + 1);
    config.primary = M(i % 2);
    config.replicas = {};
    if (i % 3 > 0) config.replicas.push_back(M(1 - i % 2));
    if (i % 3 > 1) config.replicas.push_back(M(4));
    map = map.With(MapVersion(7 + i), 1, {{SegmentId(i % 4), config}}).value();
    const SegmentMap made = in.Make().value();
    for (uint32_t s = 0; s < 4; ++s) ASSERT_EQ(map.ConfigOf(SegmentId(s)), made.ConfigOf(SegmentId(s))) << i;
    for (const uint32_t shard : {0u, 1u, 2u, 4u}) {
      ASSERT_EQ(map.SegmentsOf(ShardId(shard)), made.SegmentsOf(ShardId(shard))) << i;
    }
  }
}

TEST(SegmentMapTest, OneSegmentIsEnough) {
  Ingredients in;
  in.ring_bits = 0;
  in.segments.resize(1);
  EXPECT_THAT(in.Make(), IsOk());
}

class Refused : public ::testing::Test {
 protected:
  void ExpectRefused(const char* message) {
    EXPECT_THAT(in.Make(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  Ingredients in;
};

TEST_F(Refused, VersionZero) {
  in.version = MapVersion(0);
  ExpectRefused("version is 0");
}

TEST_F(Refused, RingBitsOutOfRange) {
  for (int bits : {-1, 17, 64}) {
    in.ring_bits = bits;
    ExpectRefused("ring_bits is");
  }
}

TEST_F(Refused, MissingSegment) {
  in.segments.pop_back();
  ExpectRefused("3 segments; expected 4");
}

TEST_F(Refused, EpochZero) {
  in.segments[2].epoch = Epoch(0);
  ExpectRefused("segment 2 has epoch 0");
}

TEST_F(Refused, TwoReplicasOnOneShard) {
  in.segments[3].replicas = {M(0), M(0)};
  ExpectRefused("segment 3 names shard 0 twice");
}

TEST_F(Refused, ReplicaOnAnyStartOfThePrimarysShard) {
  in.segments[1].replicas.push_back(M(2, 9));
  ExpectRefused("segment 1 names shard 2 twice");
}

TEST_F(Refused, UnknownShard) {
  in.segments[0].replicas = {M(3)};
  ExpectRefused("segment 0 names shard 3 (incarnation 1), which is not among the shards");
}

TEST_F(Refused, IncarnationFromTheFuture) {
  in.segments[0].primary = M(0, 2);
  ExpectRefused("segment 0 names shard 0 (incarnation 2), newer than the newest known one, 1");
}

TEST_F(Refused, ShardListedTwice) {
  in.shards.push_back(Shard(2, 9));
  ExpectRefused("shard 2 is listed twice");
}

TEST_F(Refused, TwoShardsOfOneName) {
  in.shards[0].name = "shard-1";
  ExpectRefused("two shards are called 'shard-1'");
}

TEST_F(Refused, ShardWithoutNameOrAddress) {
  in.shards[0].address = "";
  ExpectRefused("shard 2 has no address");
  in.shards[0].name = "";
  ExpectRefused("shard 2 has no name");
}

}  // namespace
}  // namespace paceline::ring
