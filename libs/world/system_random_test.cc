#include "libs/world/system_random.h"

#include <set>

#include "gtest/gtest.h"

namespace paceline::world {
namespace {

TEST(SystemRandomTest, DoesNotRepeat) {
  SystemRandom random;
  std::set<uint64_t> seen;
  uint64_t ever_set = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t number = random.Next();
    seen.insert(number);
    ever_set |= number;
  }
  EXPECT_EQ(seen.size(), 100u);  // fails by chance once in 10^15 runs
  EXPECT_EQ(ever_set, ~uint64_t{0}) << "all 64 bits are filled";
}

}  // namespace
}  // namespace paceline::world
