#include "libs/log/move_pace.h"

#include <gtest/gtest.h>

namespace paceline::log {
namespace {

constexpr uint64_t kFrame = 100;

// What is sent within `lasts` by segments that are visited every 20 ms and have more than enough to send.
uint64_t SentWithin(MovePace& pace, absl::Time& now, absl::Duration lasts) {
  uint64_t sent = 0;
  for (const absl::Time end = now + lasts; now < end; now += absl::Milliseconds(20)) {
    while (pace.Admits(now)) {
      pace.Spend(kFrame, now);
      sent += kFrame;
    }
  }
  return sent;
}

TEST(MovePaceTest, KeepsTheRate) {
  MovePace pace(10'000);
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  const uint64_t sent = SentWithin(pace, now, absl::Seconds(10));
  EXPECT_GE(sent, 99'000u);
  EXPECT_LE(sent, 100'000u + 500u + kFrame) << "what 50 ms allow for, and a frame, may go ahead";
}

TEST(MovePaceTest, SavesNothingUpWhileNothingIsSent) {
  MovePace pace(10'000);
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  (void)SentWithin(pace, now, absl::Seconds(1));
  now += absl::Hours(1);
  EXPECT_LE(SentWithin(pace, now, absl::Seconds(1)), 10'000u + 500u + kFrame);
}

TEST(MovePaceTest, ZeroIsNoBound) {
  EXPECT_EQ(MovePace::Of(0), nullptr);
  EXPECT_NE(MovePace::Of(1), nullptr);
}

}  // namespace
}  // namespace paceline::log
