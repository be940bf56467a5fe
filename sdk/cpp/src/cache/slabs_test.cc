#include "sdk/cpp/src/cache/slabs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace paceline::sdk {
namespace {

void Write(const Slabs& slabs, size_t from, size_t to) {
  for (uint64_t i = from; i < to; ++i) std::memcpy(slabs.At(i), &i, sizeof(i));
}
void ExpectWritten(const Slabs& slabs, size_t to) {
  for (uint64_t i = 0; i < to; ++i) {
    uint64_t there = 0;
    std::memcpy(&there, slabs.At(i), sizeof(there));
    ASSERT_EQ(there, i);
  }
}

// Of a line of the cache, of another size, and of more than a chunk.
class SlabsTest : public ::testing::TestWithParam<size_t> {
 protected:
  const size_t items_ = GetParam() > 1 << 20 ? 5 : 200'000;
};
INSTANTIATE_TEST_SUITE_P(Sizes, SlabsTest, ::testing::Values(8, 24, 64, 3 << 20));

TEST_P(SlabsTest, ItemsStayAsTheyAreWhileThereAreMoreOrFewer) {
  Slabs slabs(GetParam());
  for (size_t has = 0; has < items_; has += has / 2 + 1) {
    slabs.MakeRoom(has + has / 2 + 1);
    Write(slabs, has, has + has / 2 + 1);
  }
  ExpectWritten(slabs, items_);
  for (size_t has = items_; has > 0; has /= 2) {
    slabs.Shrink(has);
    ExpectWritten(slabs, has);
  }
  slabs.MakeRoom(items_);
  Write(slabs, 1, items_);
  ExpectWritten(slabs, items_);
}

TEST_P(SlabsTest, NoItemMovesBeyondTheFirstChunk) {
  Slabs slabs(GetParam());
  slabs.MakeRoom(items_ / 2);
  const char* const first = slabs.At(0);
  const char* const later = slabs.At(items_ / 2 - 1);
  if (items_ / 2 * GetParam() < size_t{4} << 20) return;  // all in the first one
  slabs.MakeRoom(items_);
  EXPECT_EQ(slabs.At(0), first);
  EXPECT_EQ(slabs.At(items_ / 2 - 1), later);
}

TEST(SlabsAlignment, ItemsOfALineLieInALine) {
  Slabs slabs(64);
  for (size_t room = 1; room < 100'000; room *= 3) {
    slabs.MakeRoom(room);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slabs.At(room - 1)) % 64, 0u);
  }
}

TEST(SlabsRoom, CanBeUsedAgainOnceCleared) {
  Slabs slabs(8);
  slabs.MakeRoom(1'000'000);
  slabs.Clear();
  slabs.Shrink(0);
  slabs.MakeRoom(3);
  Write(slabs, 0, 3);
  ExpectWritten(slabs, 3);
}

}  // namespace
}  // namespace paceline::sdk
