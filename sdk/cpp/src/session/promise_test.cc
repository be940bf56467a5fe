#include "sdk/cpp/src/session/promise.h"

#include "gtest/gtest.h"

namespace paceline::sdk {
namespace {

TEST(PromiseTest, SspFollowsItsOptions) {
  const Promise promise =
      PromiseOf(Consistency(Ssp{.staleness = 4, .read_my_writes = false, .catch_up = 2, .refresh = true}));
  EXPECT_EQ(promise.staleness, 4u);
  EXPECT_EQ(promise.catch_up, 2u);
  EXPECT_FALSE(promise.exact);
  EXPECT_TRUE(promise.own_fetched);
  EXPECT_FALSE(promise.own_cached);
  EXPECT_TRUE(promise.refresh);
  EXPECT_EQ(PromiseOf(Ssp{}).catch_up, std::nullopt);
}

TEST(PromiseTest, AspPromisesNothing) {
  const Promise promise = PromiseOf(Consistency(Asp{}));
  EXPECT_EQ(promise.staleness, std::nullopt);
  EXPECT_FALSE(promise.exact || promise.own_fetched || promise.refresh);
}

TEST(PromiseTest, BspIsExactAndHoldsNothingOfItsOwnClock) {
  const Promise promise = PromiseOf(Consistency(Bsp{}));
  EXPECT_EQ(promise.staleness, 0u);
  EXPECT_TRUE(promise.exact);
  EXPECT_FALSE(promise.own_fetched || promise.refresh);
}

TEST(PromiseTest, VapBoundsValuesAndReadsTheNewest) {
  const Promise promise = PromiseOf(Consistency(Vap{.v = 0.5, .decay = true}));
  EXPECT_EQ(promise.staleness, std::nullopt);
  EXPECT_EQ(promise.value_bound, 0.5);
  EXPECT_TRUE(promise.bound_decays);
  EXPECT_TRUE(promise.own_fetched);
  EXPECT_EQ(PromiseOf(Asp{}).value_bound, std::nullopt);
}

}  // namespace
}  // namespace paceline::sdk
