#include "libs/table/block_map.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

std::unique_ptr<RangedPage> PageOf(uint64_t block) {
  return std::make_unique<RangedPage>(RowShape{.dim = 1}, block, 1);
}

std::vector<uint64_t> BlocksFrom(const BlockMap& map, uint64_t from, size_t most = 1'000'000) {
  std::vector<uint64_t> blocks;
  map.ForEach(from, [&](const RangedPage& page) {
    blocks.push_back(page.range().start);
    return blocks.size() < most;
  });
  return blocks;
}

TEST(BlockMapTest, IsAMap) {
  for (const int ring_bits : {0, 1, 6, 16, 32}) {
    world::SplitMix64 random(5);
    BlockMap map(ring_bits);
    std::map<uint64_t, RangedPage*> expected;
    for (int i = 0; i < 2'000; ++i) {
      // Those of one segment: neighbours, and blocks as far away as there are numbers.
      const int bits = ring_bits + static_cast<int>(random.Next() % 2 == 0 ? 10 : random.Next() % 30);
      const uint64_t block = ((random.Next() >> (64 - bits - 1)) >> ring_bits << ring_bits) + (ring_bits > 0);
      if (expected.contains(block)) continue;
      const uint64_t bound = map.bytes() + map.NewBytesBound(1);
      expected[block] = map.Add(block, PageOf(block));
      ASSERT_LE(map.bytes(), bound);
    }
    EXPECT_EQ(map.size(), expected.size());
    BlockMap::Cursor cursor;
    const uint64_t next = uint64_t{1} << ring_bits;
    std::vector<uint64_t> all;
    for (const auto& [block, page] : expected) {
      all.push_back(block);
      EXPECT_EQ(map.Find(block, cursor), page);
      EXPECT_EQ(map.Find(block + next, cursor),
                expected.contains(block + next) ? expected[block + next] : nullptr);
      if (ring_bits > 0) {
        EXPECT_EQ(map.Find(block + 1, cursor), nullptr) << "of another segment";
      }
    }
    EXPECT_EQ(BlocksFrom(map, 0), all);
    const uint64_t middle = all[all.size() / 2];
    EXPECT_EQ(BlocksFrom(map, middle).front(), middle);
    EXPECT_EQ(BlocksFrom(map, middle + 1).front(), all[all.size() / 2 + 1]);
    EXPECT_EQ(BlocksFrom(map, 0, 3).size(), 3);
  }
}

TEST(BlockMapTest, AWalkBeginsAnywhere) {
  BlockMap map(3);
  EXPECT_THAT(BlocksFrom(map, 0), ::testing::IsEmpty());
  const uint64_t last = UINT64_MAX - 2;  // as all below, 5 of 8
  for (const uint64_t block : {uint64_t{13}, uint64_t{5} + 8 * 64, last, uint64_t{5}})
    map.Add(block, PageOf(block));
  EXPECT_THAT(BlocksFrom(map, 0), ::testing::ElementsAre(5, 13, 517, last));
  EXPECT_THAT(BlocksFrom(map, 6), ::testing::ElementsAre(13, 517, last));
  EXPECT_THAT(BlocksFrom(map, 13), ::testing::ElementsAre(13, 517, last));
  EXPECT_THAT(BlocksFrom(map, 14), ::testing::ElementsAre(517, last));
  EXPECT_THAT(BlocksFrom(map, 518), ::testing::ElementsAre(last));
  EXPECT_THAT(BlocksFrom(map, last), ::testing::ElementsAre(last));
  EXPECT_THAT(BlocksFrom(map, last + 1), ::testing::IsEmpty());
}

TEST(BlockMapTest, BlocksOfSeveralSegmentsAreWalkedInOrderToo) {
  BlockMap map(3);
  for (const uint64_t block : {90, 5, 6, 13, 7}) map.Add(block, PageOf(block));
  EXPECT_THAT(BlocksFrom(map, 6), ::testing::ElementsAre(6, 7, 13, 90));
}

TEST(BlockMapTest, ACursorSeesWhatIsAdded) {
  BlockMap map(0);
  BlockMap::Cursor cursor;
  EXPECT_EQ(map.Find(7, cursor), nullptr);
  RangedPage* const seventh = map.Add(7, PageOf(7));
  EXPECT_EQ(map.Find(7, cursor), seventh);
  EXPECT_EQ(map.Find(8, cursor), nullptr);
  RangedPage* const eighth = map.Add(8, PageOf(8));
  EXPECT_EQ(map.Find(8, cursor), eighth);
  EXPECT_EQ(map.Find(7'000'000, cursor), nullptr);
  EXPECT_EQ(map.Find(7, cursor), seventh);
}

TEST(BlockMapTest, TheBlocksOfASegmentNeedFewBytes) {
  for (const int ring_bits : {0, 6, 16}) {
    BlockMap map(ring_bits);
    EXPECT_EQ(map.NewBytesBound(0), 0);
    const uint64_t bound = map.NewBytesBound(1'000);
    for (uint64_t i = 0; i < 1'000; ++i) map.Add(i << ring_bits, PageOf(i));
    EXPECT_LE(map.bytes(), bound);
    EXPECT_LT(map.bytes(), 1'000 * 10) << ring_bits;
  }
}

TEST(BlockMapDeathTest, ABlockHasOnePage) {
  BlockMap map(0);
  map.Add(7, PageOf(7));
  EXPECT_DEATH(map.Add(7, PageOf(7)), "block 7 has a page already");
}

}  // namespace
}  // namespace paceline::table
