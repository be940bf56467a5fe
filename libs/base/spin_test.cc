#include "libs/base/spin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "absl/time/time.h"

namespace paceline {
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

TEST(Spin, LooksUntilItHasFoundSomething) {
  Spin spin(absl::ToInt64Nanoseconds(absl::Minutes(1)));
  int looks = 0;
  EXPECT_TRUE(LookAWhile(spin, [&] { return ++looks == 100; }));
  EXPECT_EQ(looks, 100);
}

TEST(Spin, LooksOnceAtLeastAndThenSeldomWhereNothingComes) {
  Spin spin(1);
  int looks = 0;
  const auto look = [&] {
    ++looks;
    return false;
  };
  EXPECT_FALSE(LookAWhile(spin, look));
  EXPECT_GE(looks, 1);
  looks = 0;
  EXPECT_FALSE(LookAWhile(spin, look));  // it has not paid: it sleeps at once
  EXPECT_EQ(looks, 0);
}

TEST(SpinPermit, IsGivenToHalfOfTheCoresAtMost) {
  const auto most = std::max<size_t>(1, std::thread::hardware_concurrency() / 2);
  std::deque<SpinPermit> permits;
  for (size_t i = 0; i < most; ++i) EXPECT_TRUE(permits.emplace_back());
  EXPECT_FALSE(permits.emplace_back());
  permits.clear();
  EXPECT_TRUE(SpinPermit());
}

}  // namespace
}  // namespace paceline
