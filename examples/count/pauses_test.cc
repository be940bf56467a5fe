#include "examples/count/pauses.h"

#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

TEST(PausesTest, NoStepsGiveNoPauses) {
  EXPECT_EQ(Pauses().ToString(), "steps=0 median_ms=0.0 longest_ms=0.0 added_wait_ms=0.0");
}

TEST(PausesTest, TimeBeyondTheUsualIsAdded) {
  Pauses pauses;
  for (int i = 0; i < 9; ++i) pauses.Add(absl::Milliseconds(2));
  pauses.Add(absl::Milliseconds(106));
  EXPECT_EQ(pauses.ToString(), "steps=10 median_ms=2.0 longest_ms=106.0 added_wait_ms=100.0");
  EXPECT_EQ(pauses.added(/*usual=*/0.5), 9 * 1 + 105);
}

}  // namespace
}  // namespace paceline::examples
