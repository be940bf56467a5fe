#include "services/coordinator/metadata/facts/text.h"

#include "gtest/gtest.h"

namespace paceline::coordinator {
namespace {

TEST(TextTest, RangesAreShort) {
  EXPECT_EQ(Ranges({}), "");
  EXPECT_EQ(Ranges({4}), "4");
  EXPECT_EQ(Ranges({0, 1, 2, 7, 9, 10}), "0-2, 7, 9-10");
  std::set<uint32_t> odd;
  for (uint32_t n = 1; n < 100; n += 2) odd.insert(n);
  EXPECT_EQ(Ranges(odd), "1, 3, 5, 7, 9, 11, 13, 15, … (50 in all)");
}

TEST(TextTest, SecondsHaveOneDecimal) {
  EXPECT_EQ(Seconds(absl::Milliseconds(10234)), "10.2 s");
}

}  // namespace
}  // namespace paceline::coordinator
