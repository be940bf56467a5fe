#include "services/shard/huge_pages.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::shard {
namespace {

constexpr size_t kPage = 72 << 10;

TEST(HugePagesTest, BuffersAreOfThisProcessAndGoBack) {
  HugePages memory;
  std::byte* const first = memory.Allocate(kPage);
  if (first == nullptr) GTEST_SKIP() << "this kernel has no huge pages";
  std::vector<std::byte*> buffers{first};
  while (buffers.size() < 100) buffers.push_back(memory.Allocate(kPage));
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_NE(buffers[i], nullptr);
    std::memset(buffers[i], static_cast<int>(i), kPage);
  }
  EXPECT_EQ(memory.bytes().used, buffers.size() * kPage);
  EXPECT_GE(memory.bytes().held, memory.bytes().used);
  for (size_t i = 0; i < buffers.size(); i += 2) {
    EXPECT_EQ(buffers[i][kPage - 1], std::byte(i));
    EXPECT_TRUE(memory.Free(buffers[i]));
  }
  EXPECT_EQ(memory.spare(), memory.bytes().held - memory.bytes().used - table::PageArenas::kArenaBytes);
  for (size_t i = 1; i < buffers.size(); i += 2) {
    EXPECT_EQ(buffers[i][kPage - 1], std::byte(i));
    EXPECT_TRUE(memory.Free(buffers[i]));
  }
  EXPECT_EQ(memory.spare(), 0u);
  EXPECT_EQ(memory.bytes().used, 0u);
  EXPECT_EQ(memory.bytes().held, table::PageArenas::kArenaBytes);
  std::byte other{};
  EXPECT_FALSE(memory.Free(&other));
}

int Mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

// Were each arena a mapping of its own, a shard could have no more than 128 GiB of rows.
TEST(HugePagesTest, ManyArenasAreFewMappings) {
  constexpr int kArenas = 64;
  HugePages memory;
  const int before = Mappings();
  std::vector<std::byte*> buffers;
  while (memory.bytes().held < kArenas * table::PageArenas::kArenaBytes) {
    buffers.push_back(memory.Allocate(table::PageArenas::kBytesMax));
    if (buffers.back() == nullptr) GTEST_SKIP() << "this kernel has no huge pages";
  }
  EXPECT_LT(Mappings() - before, kArenas / 2);
  for (std::byte* const buffer : buffers) EXPECT_TRUE(memory.Free(buffer));
}

TEST(HugePagesTest, MemoryIsPlentyUpToALimitForAWhile) {
  HugePages memory;
  std::vector<std::byte*> buffers{memory.Allocate(kPage)};
  if (buffers.front() == nullptr) GTEST_SKIP() << "this kernel has no huge pages";
  EXPECT_FALSE(memory.plenty());
  {
    const HugePages::PlentyBelow plenty(memory, 2 * table::PageArenas::kArenaBytes);
    EXPECT_TRUE(memory.plenty());
    while (memory.plenty()) buffers.push_back(memory.Allocate(kPage));
    EXPECT_EQ(memory.bytes().held, 2 * table::PageArenas::kArenaBytes);
    for (std::byte* const buffer : buffers) EXPECT_TRUE(memory.Free(buffer));
    EXPECT_TRUE(memory.plenty());
  }
  EXPECT_FALSE(memory.plenty());
}

TEST(HugePagesTest, ThreadsShareThem) {
  HugePages memory;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int round = 0; round < 200; ++round) {
        std::byte* const buffer = memory.Allocate(kPage);
        if (buffer == nullptr) continue;
        std::memset(buffer, t, kPage);
        EXPECT_EQ(buffer[kPage / 2], std::byte(t));
        EXPECT_TRUE(memory.Free(buffer));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.bytes().used, 0u);
}

}  // namespace
}  // namespace paceline::shard
