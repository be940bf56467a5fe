#include "libs/base/bounded_queue.h"

#include <limits>
#include <memory>

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(BoundedQueueTest, FirstInFirstOut) {
  BoundedQueue<int> queue(3, 100);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(queue.TryPush(int{i}, 10));
  }
  EXPECT_EQ(queue.front(), 1);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.bytes(), 10u);
  EXPECT_EQ(queue.Pop(), 3);
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueTest, RefusesTheItemOverTheCountUntouched) {
  BoundedQueue<std::unique_ptr<int>> queue(1, 100);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1), 1));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second), 1));
  ASSERT_NE(second, nullptr);
  queue.Pop();
  EXPECT_TRUE(queue.TryPush(std::move(second), 1));
  EXPECT_EQ(*queue.Pop(), 2);
}

TEST(BoundedQueueTest, RefusesTheByteOverTheLimit) {
  BoundedQueue<int> queue(10, 100);
  EXPECT_TRUE(queue.TryPush(1, 60));
  EXPECT_FALSE(queue.TryPush(2, 41));
  EXPECT_TRUE(queue.TryPush(2, 40));
  EXPECT_FALSE(queue.TryPush(3, 1));
  EXPECT_TRUE(queue.TryPush(3, 0));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.bytes(), 100u);
}

TEST(BoundedQueueTest, TooHeavyEvenForAnEmptyQueue) {
  BoundedQueue<int> queue(10, 100);
  EXPECT_FALSE(queue.TryPush(1, 101));
  EXPECT_FALSE(queue.TryPush(1, std::numeric_limits<size_t>::max()));
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueTest, ClearGivesAllRoomBack) {
  BoundedQueue<int> queue(1, 1);
  EXPECT_TRUE(queue.TryPush(1, 1));
  queue.Clear();
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_TRUE(queue.TryPush(1, 1));
}

}  // namespace
}  // namespace paceline
