#include "libs/log/id_ranges.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(IdRangesTest, NeighboursGrowTogether) {
  IdRanges ids;
  for (const uint32_t id : {3u, 5u, 9u}) ids.Add(id);
  EXPECT_THAT(ids.ranges(), ElementsAre(Pair(3, 3), Pair(5, 5), Pair(9, 9)));
  ids.Add(4);
  ids.Add(4);
  EXPECT_THAT(ids.ranges(), ElementsAre(Pair(3, 5), Pair(9, 9)));
  ids.Add(UINT32_MAX);
  ids.Add(0);
  EXPECT_TRUE(ids.Contains(UINT32_MAX));
  EXPECT_TRUE(ids.Contains(0));
  EXPECT_FALSE(ids.Contains(1));
}

TEST(IdRangesTest, IsASet) {
  world::SplitMix64 random(7);
  IdRanges ids;
  std::set<uint32_t> reference;
  for (int i = 0; i < 200; ++i) {
    const auto id = static_cast<uint32_t>(world::Uniform(random, 256));
    ids.Add(id);
    reference.insert(id);
    for (uint32_t n = 0; n < 256; ++n) ASSERT_EQ(ids.Contains(n), reference.contains(n)) << n;
  }
  size_t runs = 0;
  for (const uint32_t id : reference) runs += reference.contains(id + 1) ? 0 : 1;
  EXPECT_EQ(ids.ranges().size(), runs);
}

}  // namespace
}  // namespace paceline::log
