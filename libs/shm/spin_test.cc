#include "libs/shm/spin.h"

#include <gtest/gtest.h>

namespace paceline::shm {
namespace {

TEST(Spin, ShrinksToNothingInVainAndIsTriedAgain) {
  Spin spin(50'000);
  int whole = 0;
  int none = 0;
  for (int i = 0; i < 64; ++i) {
    const int64_t limit = spin.Limit();
    whole += limit == 50'000;
    none += limit == 0;
    spin.InVain();
  }
  EXPECT_GE(whole, 4);
  EXPECT_LE(whole, 5);
  EXPECT_GT(none, 50);
}

TEST(Spin, IsWholeAgainWhereItHasPaid) {
  Spin spin(50'000);
  for (int i = 0; i < 10; ++i) spin.InVain();
  EXPECT_EQ(spin.Limit(), 0);
  spin.Paid();
  EXPECT_EQ(spin.Limit(), 50'000);
}

TEST(Spin, OfNothingStaysNothing) {
  Spin spin(0);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(spin.Limit(), 0);
    spin.Paid();
  }
}

}  // namespace
}  // namespace paceline::shm
