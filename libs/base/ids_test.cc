#include "libs/base/ids.h"

#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(IdTest, DoesNotConvert) {
  static_assert(!std::is_convertible_v<uint32_t, SegmentId>);
  static_assert(!std::is_convertible_v<SegmentId, TableId>);
  static_assert(!std::is_convertible_v<SegmentId, uint32_t>);
  static_assert(sizeof(SegmentId) == sizeof(uint32_t));
}

TEST(IdTest, ComparesHashesAndPrintsAsItsNumber) {
  EXPECT_EQ(Epoch(3), Epoch(3));
  EXPECT_LT(Epoch(3), Epoch(4));
  EXPECT_EQ(Epoch(), Epoch(0));
  EXPECT_EQ(ToString(Lsn(17)), "17");
  const absl::flat_hash_set<ShardId> set{ShardId(1), ShardId(2), ShardId(1)};
  EXPECT_EQ(set.size(), 2u);
}

}  // namespace
}  // namespace paceline
