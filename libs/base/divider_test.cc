#include "libs/base/divider.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

namespace paceline {
namespace {

void ExpectDivides(uint64_t by, uint64_t dividend) {
  EXPECT_EQ(Divider(by)(dividend), dividend / by) << dividend << " / " << by;
}

TEST(Divider, DividesAsTheLanguageDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t by = (random() >> (random() % 64)) | 1;
    ExpectDivides(by, random() >> (random() % 64));
    for (const uint64_t near : {by, by * (random() % 1'000)}) {
      for (const uint64_t dividend : {near - 1, near, near + 1}) ExpectDivides(by, dividend);
    }
  }
}

TEST(Divider, DividesAtTheBordersOfItsMethods) {
  constexpr uint64_t k32 = uint64_t{1} << 32;
  for (const uint64_t by : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1024}, k32 - 2, k32 - 1, k32,
                            k32 + 1, UINT64_MAX - 1, UINT64_MAX}) {
    for (const uint64_t dividend : {uint64_t{0}, uint64_t{1}, by - 1, by, by + 1, k32 - 2, k32 - 1, k32,
                                    k32 + 1, UINT64_MAX - 1, UINT64_MAX}) {
      ExpectDivides(by, dividend);
    }
  }
}

}  // namespace
}  // namespace paceline
