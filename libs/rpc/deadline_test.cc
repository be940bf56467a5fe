#include "libs/rpc/deadline.h"

#include "gtest/gtest.h"

namespace paceline::rpc {
namespace {

TEST(DeadlineTest, IsThatFarAwayAndNoFurther) {
  const absl::Duration left = Left(After(absl::Seconds(100)));
  EXPECT_LE(left, absl::Seconds(100));
  EXPECT_GT(left, absl::Seconds(40)) << "a minute for two lines";
  EXPECT_LE(Left(After(-absl::Seconds(5))), absl::ZeroDuration());
  EXPECT_LE(Left(After(absl::InfiniteDuration())), absl::Hours(24));
}

TEST(DeadlineTest, IsNoTimeOfTheWallClock) {
  EXPECT_EQ(After(absl::Seconds(1)).clock_type, GPR_CLOCK_MONOTONIC);
}

TEST(DeadlineTest, NoneIsForEver) {
  EXPECT_EQ(Left(gpr_inf_future(GPR_CLOCK_MONOTONIC)), absl::InfiniteDuration());
  EXPECT_EQ(Left(gpr_inf_future(GPR_CLOCK_REALTIME)), absl::InfiniteDuration());
}

}  // namespace
}  // namespace paceline::rpc
