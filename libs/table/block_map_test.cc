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
  world::SplitMix64 random(5);
  BlockMap map;
  std::map<uint64_t, RangedPage*> expected;
  for (int i = 0; i < 2'000; ++i) {
    // Neighbours, and blocks as far away as there are numbers.
    const uint64_t block = random.Next() >> (random.Next() % 2 == 0 ? 54 : random.Next() % 64);
    if (expected.contains(block)) continue;
    const uint64_t bound = map.bytes() + map.NewBytesBound(1, ~uint64_t{0} >> 1);
    expected[block] = map.Add(block, PageOf(block));
    EXPECT_LE(map.bytes(), bound);
  }
  EXPECT_EQ(map.size(), expected.size());
  BlockMap::Cursor cursor;
  for (const auto& [block, page] : expected) {
    EXPECT_EQ(map.Find(block, cursor), page);
    EXPECT_EQ(map.Find(block + 1, cursor), expected.contains(block + 1) ? expected[block + 1] : nullptr);
  }
  std::vector<uint64_t> all;
  for (const auto& [block, page] : expected) all.push_back(block);
  EXPECT_EQ(BlocksFrom(map, 0), all);
  const uint64_t middle = all[all.size() / 2];
  EXPECT_EQ(BlocksFrom(map, middle).front(), middle);
  EXPECT_EQ(BlocksFrom(map, middle + 1).front(), all[all.size() / 2 + 1]);
  EXPECT_EQ(BlocksFrom(map, 0, 3).size(), 3);
}

TEST(BlockMapTest, ACursorSeesWhatIsAdded) {
  BlockMap map;
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

TEST(BlockMapTest, ATableOfFewBlocksNeedsFewBytes) {
  BlockMap map;
  EXPECT_EQ(map.NewBytesBound(0, 100), 0);
  const uint64_t bound = map.NewBytesBound(100, 100);
  EXPECT_LT(bound, 4096) << "they are neighbours";
  for (uint64_t block = 0; block < 100; ++block) map.Add(block, PageOf(block));
  EXPECT_LE(map.bytes(), bound);
  EXPECT_EQ(map.NewBytesBound(1, 100), 0);
}

}  // namespace
}  // namespace paceline::table
