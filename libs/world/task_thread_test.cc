#include "libs/world/task_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "libs/world/real_clock.h"

namespace paceline::world {
namespace {

TEST(TaskThreadTest, TasksAreDoneInTheOrderInWhichTheyAreDue) {
  std::vector<int> done;
  Notification all;
  TaskThread thread;
  const absl::Time begin = MonotonicNow();
  thread.Run(
      [&] {
        done.push_back(3);
        all.Notify();
      },
      absl::Milliseconds(20));
  thread.Run([&] { done.push_back(1); });
  thread.Run([&] { done.push_back(2); });
  ASSERT_TRUE(all.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_THAT(done, ::testing::ElementsAre(1, 2, 3));
  EXPECT_GE(MonotonicNow() - begin, absl::Milliseconds(20));
}

TEST(TaskThreadTest, StopEndsTheTaskUnderWayAndBeginsNoOther) {
  Notification begun;
  Notification go_on;
  bool ended = false;
  TaskThread thread;
  thread.Run([&] {
    begun.Notify();
    go_on.WaitForNotification();
    ended = true;
  });
  const auto kept = std::make_shared<int>(1);
  thread.Run([kept] { FAIL() << "it was given before the end, and not begun"; }, absl::Hours(1));
  begun.WaitForNotification();
  go_on.Notify();
  thread.Stop();
  EXPECT_TRUE(ended);
  thread.Run([kept, another = std::make_shared<int>(2)] { FAIL() << "it came after the end"; });
  thread.Stop();
  EXPECT_EQ(kept.use_count(), 2) << "of a task that comes after the end nothing is kept";
}

}  // namespace
}  // namespace paceline::world
