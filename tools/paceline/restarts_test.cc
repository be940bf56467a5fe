#include "tools/paceline/restarts.h"

#include "gtest/gtest.h"

namespace paceline::tool {
namespace {

constexpr absl::Time kBegin = absl::UnixEpoch();

TEST(RestartsTest, PausesGrowToABound) {
  Restarts restarts(kBegin);
  absl::Time now = kBegin + absl::Seconds(1);
  absl::Duration last;
  for (int i = 0; i < 12; ++i) {
    const absl::Duration pause = restarts.Ended("shard-0", now);
    EXPECT_EQ(pause, std::min(absl::Seconds(30), absl::Milliseconds(500) * (1 << i)));
    EXPECT_EQ(restarts.Next(), now + pause);
    now += pause;
    EXPECT_EQ(restarts.Take(now), "shard-0");
  }
}

TEST(RestartsTest, AProcessThatLivedForAWhileBeginsAnew) {
  Restarts restarts(kBegin);
  absl::Time now = kBegin;
  for (int i = 0; i < 4; ++i) {
    now += restarts.Ended("shard-0", now);
    EXPECT_TRUE(restarts.Take(now).has_value());
  }
  EXPECT_EQ(restarts.Ended("shard-0", now + absl::Minutes(1)), absl::Milliseconds(500));
}

TEST(RestartsTest, EachProcessStartsOnceAndInTime) {
  Restarts restarts(kBegin);
  EXPECT_EQ(restarts.Next(), absl::InfiniteFuture());
  EXPECT_EQ(restarts.Take(kBegin), std::nullopt);
  restarts.Ended("shard-0", kBegin);
  restarts.Ended("coordinator", kBegin + absl::Milliseconds(100));
  EXPECT_EQ(restarts.Take(kBegin + absl::Milliseconds(499)), std::nullopt);
  EXPECT_EQ(restarts.Take(kBegin + absl::Milliseconds(500)), "shard-0");
  EXPECT_EQ(restarts.Take(kBegin + absl::Milliseconds(500)), std::nullopt);
  EXPECT_EQ(restarts.Next(), kBegin + absl::Milliseconds(600));
}

}  // namespace
}  // namespace paceline::tool
