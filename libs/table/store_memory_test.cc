// What the store counts, beside what the allocator gave it: the budget of a shard is made of the former.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "libs/table/store.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PACELINE_COUNTS_MEMORY 0  // sanitizers have allocators of their own
#else
#define PACELINE_COUNTS_MEMORY 1
#endif

#if PACELINE_COUNTS_MEMORY
namespace {

// Of all memory taken with operator new and not given back, as the allocator cut it.
std::atomic<uint64_t> live_bytes{0};

void* Take(std::size_t bytes, std::size_t alignment) {
  void* at = alignment <= alignof(std::max_align_t)
                 ? std::malloc(bytes)
                 : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  live_bytes += malloc_usable_size(at);
  return at;
}

void GiveBack(void* at) noexcept {
  if (at != nullptr) live_bytes -= malloc_usable_size(at);
  std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return Take(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return Take(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept {
  GiveBack(at);
}
void operator delete[](void* at) noexcept {
  GiveBack(at);
}
void operator delete(void* at, std::size_t) noexcept {
  GiveBack(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  GiveBack(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
  GiveBack(at);
}
void operator delete[](void* at, std::align_val_t) noexcept {
  GiveBack(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  GiveBack(at);
}
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept {
  GiveBack(at);
}

#endif

namespace paceline::table {
namespace {

constexpr uint32_t kDim = 16;
constexpr double kPayload = kDim * sizeof(float);
constexpr double kLimit = 1.5 * kPayload + 16;

// One segment, so that its rows are those of a shard's 64 times as many.
struct Growing {
  // Gives birth to rows up to `rows`.
  void To(uint64_t rows) {
    std::vector<uint64_t> keys(1000);
    const std::vector<float> gradients(keys.size() * kDim, 1.0f);
    for (; rows_ < rows; rows_ += keys.size()) {
      std::iota(keys.begin(), keys.end(), rows_);
      store.Update(keys, gradients, Lsn(++version_));
    }
  }

  TableStore store{TableId(1), Schema{.dim = kDim}, 0};

 private:
  uint64_t rows_ = 0;
  uint64_t version_ = 0;
};

#if PACELINE_COUNTS_MEMORY
TEST(StoreMemoryTest, TheStoreCountsWhatTheAllocatorGaveIt) {
  for (const uint64_t rows : {1'000, 16'000, 24'000, 31'000, 47'000, 62'000}) {
    const uint64_t before = live_bytes;
    Growing growing;
    growing.To(rows);
    const auto given = static_cast<double>(live_bytes - before);
    const auto counted = static_cast<double>(growing.store.bytes());
    EXPECT_GE(counted, 0.9 * given) << rows << " rows";
    EXPECT_LE(counted, 1.1 * given) << rows << " rows";
  }
}

TEST(StoreMemoryTest, ARowTakesLessThanHalfAgainItsPayload) {
  double sum = 0;
  const std::vector<uint64_t> sizes = {16'000, 24'000, 32'000, 48'000, 64'000};
  for (const uint64_t rows : sizes) {
    const uint64_t before = live_bytes;
    Growing growing;
    growing.To(rows);
    sum += static_cast<double>(live_bytes - before) / static_cast<double>(growing.store.rows());
  }
  EXPECT_LE(sum / static_cast<double>(sizes.size()), kLimit);
}

#endif

// What is filled in from a disk or a member is as dense as what grew.
TEST(StoreMemoryTest, InstalledRowsTakeNoMoreThanThoseThatGrew) {
  Growing growing;
  growing.To(50'000);
  TableStore installed(TableId(1), Schema{.dim = kDim}, 0);
  growing.store.ForEachPage([&](const Page& page) {
    PageImage image = page.Image();
    ASSERT_TRUE(installed.Install(image).ok());
  });
  EXPECT_EQ(installed.rows(), growing.store.rows());
  EXPECT_LE(installed.bytes(), growing.store.bytes());
}

}  // namespace
}  // namespace paceline::table
