#include "libs/base/retry.h"

#include <limits>

#include "gtest/gtest.h"

namespace paceline {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
const BackoffPolicy kPolicy{
    .initial = absl::Milliseconds(10), .max = absl::Milliseconds(65), .factor = 2.0, .jitter = 0.5};

TEST(BackoffTest, GrowsToTheMaximum) {
  Backoff backoff(kPolicy);
  for (int expected_ms : {10, 20, 40, 65, 65}) {
    EXPECT_EQ(backoff.Next(0), absl::Milliseconds(expected_ms));
  }
  EXPECT_EQ(backoff.failures(), 5);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(0), absl::Milliseconds(10));
}

TEST(BackoffTest, JitterShortensByAtMostItsShare) {
  EXPECT_EQ(kPolicy.Delay(1, uint64_t{1} << 63), absl::Milliseconds(15));
  EXPECT_GE(kPolicy.Delay(1, kMost), absl::Milliseconds(10));
  EXPECT_LT(kPolicy.Delay(1, kMost), absl::Milliseconds(10.01));
  BackoffPolicy none = kPolicy;
  none.jitter = 0;
  EXPECT_EQ(none.Delay(1, kMost), absl::Milliseconds(20));
}

TEST(BackoffTest, StaysFiniteForever) {
  EXPECT_EQ(kPolicy.Delay(std::numeric_limits<int>::max(), 0), kPolicy.max);
}

TEST(BackoffTest, APolicyMayHaveNoPauses) {
  BackoffPolicy policy = kPolicy;
  policy.initial = absl::ZeroDuration();
  EXPECT_EQ(policy.Delay(0, 0), absl::ZeroDuration());
  EXPECT_EQ(policy.Delay(9, 0), absl::ZeroDuration());
}

}  // namespace
}  // namespace paceline
