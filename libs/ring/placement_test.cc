#include "libs/ring/placement.h"

#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/ring/hash.h"
#include "libs/world/random.h"

namespace paceline::ring {
namespace {

using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

Placement Sparse(uint32_t table, int k) {
  return Placement::Sparse(TableId(table), k).value();
}
Placement Ranged(uint32_t table, int k, uint64_t rows, uint32_t dim) {
  return Placement::Ranged(TableId(table), k, rows, dim).value();
}

struct SparseVector {
  uint32_t table;
  int k;
  uint64_t key;
  uint32_t segment;
};

struct RangedVector {
  uint32_t table;
  int k;
  uint64_t rows;
  uint32_t dim;
  uint64_t rows_per_block;
  uint64_t blocks;
  uint32_t first, middle, last;  // segments of keys 0, rows div 2, rows - 1
};

// The tables of docs/wire.md, computed by an implementation in another language. A change here is a change of
// the wire format.
constexpr SparseVector kSparse[] = {
    {1, 6, 0, 30}, {1, 6, 1, 54}, {1, 6, 2, 59},     {2, 6, 1, 15},
    {1, 0, 1, 0},  {1, 1, 1, 1},  {1, 16, 1, 55743}, {7, 16, 123456789, 695},
};

constexpr RangedVector kRanged[] = {
    {1, 6, 1, 1, 256, 1, 37, 37, 37},
    {1, 6, 10, 1, 256, 1, 37, 37, 37},
    {1, 6, 100000, 1, 390, 257, 37, 37, 37},
    {1, 6, 1000000000, 1, 16384, 61036, 37, 26, 16},
    {2, 6, 1000, 10, 26, 39, 10, 29, 48},
    {2, 6, 100000, 10, 390, 257, 10, 10, 10},
    {3, 6, 25600, 100, 100, 256, 48, 48, 47},
    {3, 6, 50, 256, 1, 50, 48, 9, 33},
    {3, 4, 100000, 300, 54, 1852, 0, 13, 11},
    {3, 6, 1000, 16384, 1, 1000, 48, 36, 23},
    {3, 6, 1000, 20000, 1, 1000, 48, 36, 23},
    {5, 0, 65536, 1, 16384, 4, 0, 0, 0},
    {5, 16, 100000000, 2, 381, 262468, 17884, 18045, 18207},
    {5, 6, kMost, 1, 16384, 1125899906842624, 28, 27, 27},
    {1, 6, 16777216, 64, 256, 65536, 37, 37, 36},
};

TEST(PlacementTest, FrozenVectorsOfSparseTables) {
  for (const SparseVector& v : kSparse) {
    EXPECT_EQ(Sparse(v.table, v.k).Of(v.key), SegmentId(v.segment)) << v.table << ' ' << v.k << ' ' << v.key;
  }
}

TEST(PlacementTest, FrozenVectorsOfRangedTables) {
  for (const RangedVector& v : kRanged) {
    SCOPED_TRACE(absl::StrCat("table ", v.table, " k ", v.k, " rows ", v.rows, " dim ", v.dim));
    const Placement placement = Ranged(v.table, v.k, v.rows, v.dim);
    EXPECT_EQ(placement.RowsPerBlock(), v.rows_per_block);
    EXPECT_EQ(placement.BlockOf(v.rows - 1) + 1, v.blocks);
    EXPECT_EQ(placement.Of(0), SegmentId(v.first));
    EXPECT_EQ(placement.Of(v.rows / 2), SegmentId(v.middle));
    EXPECT_EQ(placement.Of(v.rows - 1), SegmentId(v.last));
  }
}

TEST(PlacementTest, ARingOfOneSegmentHoldsEveryKey) {
  for (uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, kMost}) {
    EXPECT_EQ(Sparse(9, 0).Of(key), SegmentId(0));
    EXPECT_EQ(Ranged(9, 0, 1000, 4).Of(key), SegmentId(0));
  }
}

TEST(PlacementTest, SparseKeysSpreadEvenly) {
  const Placement placement = Sparse(4, 6);
  std::vector<int> counts(64, 0);
  for (uint64_t key = 0; key < 64000; ++key) {
    ++counts[placement.Of(key).v];
  }
  for (int count : counts) {
    EXPECT_NEAR(count, 1000, 160);  // five standard deviations
  }
}

TEST(PlacementTest, BlocksKeepTheirBounds) {
  world::SplitMix64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const int k = static_cast<int>(Uniform(random, kRingBitsMax + 1));
    const uint64_t rows = (random.Next() >> Uniform(random, 64)) | 1;
    const uint32_t dim = 1 + static_cast<uint32_t>(Uniform(random, uint64_t{1} << Uniform(random, 17)));
    SCOPED_TRACE(absl::StrCat("k ", k, " rows ", rows, " dim ", dim));
    const Placement placement = Ranged(1, k, rows, dim);
    const uint64_t bytes = placement.RowsPerBlock() * dim * 4;
    EXPECT_GE(bytes, kBlockBytesMin);
    EXPECT_TRUE(bytes <= kBlockBytesMax || placement.RowsPerBlock() == 1);
    // If the bounds leave a choice there are four blocks per segment, or a few more.
    if ((placement.RowsPerBlock() - 1) * dim * 4 >= kBlockBytesMin) {
      EXPECT_GE(placement.BlockOf(rows - 1) + 1, uint64_t{4} << k);
    }
  }
}

TEST(PlacementTest, ForRangeCutsAtBlocks) {
  const Placement placement = Ranged(1, 6, 1000, 1);  // blocks of 256 from segment 37 on
  EXPECT_THAT(placement.ForRange(0, 1000),
              IsOkAndHolds(ElementsAre(Piece{SegmentId(37), 0, 256}, Piece{SegmentId(38), 256, 256},
                                       Piece{SegmentId(39), 512, 256}, Piece{SegmentId(40), 768, 232})));
  EXPECT_THAT(placement.ForRange(255, 2),
              IsOkAndHolds(ElementsAre(Piece{SegmentId(37), 255, 1}, Piece{SegmentId(38), 256, 1})));
  EXPECT_THAT(placement.ForRange(256, 256), IsOkAndHolds(ElementsAre(Piece{SegmentId(38), 256, 256})));
  EXPECT_THAT(placement.ForRange(999, 1), IsOkAndHolds(ElementsAre(Piece{SegmentId(40), 999, 1})));
  EXPECT_THAT(placement.ForRange(1000, 0), IsOkAndHolds(IsEmpty()));
}

TEST(PlacementTest, ForRangeAgreesWithKeyByKey) {
  world::SplitMix64 random(12);
  for (int i = 0; i < 300; ++i) {
    const int k = static_cast<int>(Uniform(random, 8));
    const uint64_t rows = 1 + Uniform(random, 5000);
    const uint32_t dim = 1 + static_cast<uint32_t>(Uniform(random, 600));
    const Placement placement = Ranged(1 + static_cast<uint32_t>(Uniform(random, 100)), k, rows, dim);
    const uint64_t first = Uniform(random, rows + 1);
    const uint64_t count = Uniform(random, rows - first + 1);
    const std::vector<Piece> pieces = placement.ForRange(first, count).value();
    uint64_t key = first;
    for (const Piece& piece : pieces) {
      EXPECT_EQ(piece.first, key);
      EXPECT_GT(piece.count, 0u);
      EXPECT_EQ(placement.BlockOf(piece.first), placement.BlockOf(piece.first + piece.count - 1));
      for (uint64_t n = 0; n < piece.count; ++n) {
        // The definition, as docs/wire.md has it.
        const uint64_t block = key / placement.RowsPerBlock();
        const uint64_t segment = (Mix64(placement.table().v) + block) % placement.SegmentCount();
        EXPECT_EQ(piece.segment.v, segment);
        EXPECT_EQ(placement.Of(key), piece.segment);
        ++key;
      }
    }
    EXPECT_EQ(key, first + count);
  }
}

TEST(PlacementTest, ForRangeAtTheEndOfTheKeys) {
  const Placement placement = Ranged(5, 6, kMost, 1);
  EXPECT_THAT(placement.ForRange(kMost - 1, 1),
              IsOkAndHolds(ElementsAre(Piece{SegmentId(27), kMost - 1, 1})));
  EXPECT_THAT(placement.ForRange(kMost - 1, 2), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(PlacementTest, ForRangeRefusesKeysThatDoNotExist) {
  const Placement placement = Ranged(8, 6, 1000, 1);
  EXPECT_THAT(placement.ForRange(999, 2), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("0 to 999")));
  EXPECT_THAT(placement.ForRange(1001, 0), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(placement.ForRange(1, kMost), StatusIs(absl::StatusCode::kOutOfRange)) << "must not overflow";
  EXPECT_THAT(Sparse(8, 6).ForRange(0, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sparse")));
}

TEST(PlacementTest, RefusesImpossibleTables) {
  for (int k : {-1, kRingBitsMax + 1, 64}) {
    EXPECT_THAT(Placement::Sparse(TableId(1), k),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ring_bits")));
    EXPECT_THAT(Placement::Ranged(TableId(1), k, 1, 1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ring_bits")));
  }
  EXPECT_THAT(Placement::Ranged(TableId(3), 6, 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("table 3 is ranged and has 0 rows")));
  EXPECT_THAT(Placement::Ranged(TableId(3), 6, 1, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows of 0 values")));
}

TEST(PlacementTest, OfAllIsOfOfEach) {
  world::SplitMix64 random(1);
  std::vector<uint64_t> keys(200);
  for (uint64_t& key : keys) key = random.Next();
  for (const Placement& placement : {Sparse(1, 0), Sparse(1, 1), Sparse(9, 6), Sparse(9, 16),
                                     Ranged(1, 0, 10, 1), Ranged(3, 6, 100'000, 5)}) {
    std::vector<uint32_t> segments(keys.size(), 77);
    placement.OfAll(keys.data(), keys.size(), segments.data());
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(SegmentId(segments[i]), placement.Of(keys[i])) << i;
  }
}

TEST(PlacementTest, AllAreInASegmentUnlessOneIsNot) {
  world::SplitMix64 random(1);
  for (const Placement& placement : {Sparse(9, 6), Ranged(3, 6, 1'000'000'000, 5)}) {
    std::vector<uint64_t> keys;
    while (keys.size() < 100) {
      const uint64_t key = world::Uniform(random, 1'000'000'000);
      if (placement.Of(key) == SegmentId(7)) keys.push_back(key);
    }
    EXPECT_TRUE(placement.AllIn(SegmentId(7), keys.data(), keys.size()));
    EXPECT_FALSE(placement.AllIn(SegmentId(8), keys.data(), keys.size()));
    EXPECT_TRUE(placement.AllIn(SegmentId(8), keys.data(), 0));
    for (uint64_t& key : keys) {
      const uint64_t before = key;
      while (placement.Of(key) == SegmentId(7)) ++key;
      EXPECT_FALSE(placement.AllIn(SegmentId(7), keys.data(), keys.size()));
      key = before;
    }
  }
  EXPECT_TRUE(Sparse(1, 0).AllIn(SegmentId(0), "12345678", 1));
  EXPECT_FALSE(Sparse(1, 0).AllIn(SegmentId(1), "12345678", 1));
}

// Runs of keys of one block pass another way: of each length up to more than a vector, with one key
// elsewhere, in its place or among the last.
TEST(PlacementTest, OneKeyElsewhereIsFoundAmongRunsOfABlock) {
  const Placement placement = Ranged(3, 2, 100'000, 1);  // blocks of 6,250 rows
  const uint64_t block = placement.RowsPerBlock();
  const SegmentId segment = placement.Of(0);
  std::vector<uint64_t> keys;
  for (size_t length = 1; length <= 40; ++length) {
    keys.clear();
    for (const uint64_t first : {uint64_t{0}, 4 * block, 8 * block}) {
      ASSERT_EQ(placement.Of(first), segment);
      for (size_t i = 0; i < length; ++i) keys.push_back(first + (i + 1 == length ? block - 1 : 3 * i));
    }
    EXPECT_TRUE(placement.AllIn(segment, keys.data(), keys.size())) << length;
    EXPECT_FALSE(placement.AllIn(SegmentId(segment.v ^ 1), keys.data(), keys.size())) << length;
    for (uint64_t& key : keys) {
      for (const uint64_t elsewhere : {key + block, key - block, kMost - key}) {
        if (placement.Of(elsewhere) == segment) continue;
        const uint64_t before = std::exchange(key, elsewhere);
        EXPECT_FALSE(placement.AllIn(segment, keys.data(), keys.size())) << length;
        key = before;
      }
    }
  }
}

// The last block of all numbers is shorter than the others: the first keys are not in it.
TEST(PlacementTest, KeysAcrossTheEndOfAllNumbersAreInDifferentBlocks) {
  const Placement placement = Ranged(3, 6, kMost, 5);
  const uint64_t last = placement.BlockOf(kMost) * placement.RowsPerBlock();
  ASSERT_LT(kMost - last, placement.RowsPerBlock() - 20);
  std::vector<uint64_t> keys = {last};
  for (uint64_t key = 0; key < 20; ++key) keys.push_back(key);
  keys.push_back(kMost);
  ASSERT_NE(placement.Of(last), placement.Of(0));
  EXPECT_FALSE(placement.AllIn(placement.Of(last), keys.data(), keys.size()));
}

}  // namespace
}  // namespace paceline::ring
