#include "libs/sim/scheduler.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::sim {
namespace {

TEST(Scheduler, RunsByTimeThenByArrival) {
  Scheduler scheduler;
  std::string order;
  const absl::Time start = scheduler.Now();
  scheduler.After(absl::Seconds(2), [&] { order += 'c'; });
  scheduler.After(absl::Seconds(1), [&] { order += 'a'; });
  scheduler.After(absl::Seconds(1), [&] {
    order += 'b';
    scheduler.At(start, [&] { order += '!'; });  // the past is now
  });
  while (scheduler.RunOne()) {
  }
  EXPECT_EQ(order, "ab!c");
  EXPECT_EQ(scheduler.Now(), start + absl::Seconds(2));
  EXPECT_EQ(scheduler.steps(), 4u);
}

}  // namespace
}  // namespace paceline::sim
