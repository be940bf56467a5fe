#include "libs/table/page_arenas.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "libs/table/page_memory.h"
#include "libs/table/store.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

constexpr auto kAligned = std::align_val_t{PageArenas::kArenaBytes};

class Heap final : public PageArenas::Source {
 public:
  std::byte* Take() override {
    if (taken.size() >= most) return nullptr;
    auto* const arena = static_cast<std::byte*>(::operator new(PageArenas::kArenaBytes, kAligned));
    taken.insert(arena);
    return arena;
  }
  void GiveBack(std::byte* arena) override {
    EXPECT_EQ(taken.erase(arena), 1u);
    ::operator delete(arena, kAligned);
  }

  std::set<std::byte*> taken;
  size_t most = SIZE_MAX;
};

TEST(PageArenasTest, BuffersDoNotOverlapAndLieInArenas) {
  Heap heap;
  PageArenas arenas(heap);
  world::SplitMix64 random(7);
  std::map<std::byte*, size_t> buffers;  // with their bytes
  for (int step = 0; step < 20'000; ++step) {
    if (!buffers.empty() && random.Next() % 5 < 2) {
      const auto it = std::next(buffers.begin(), static_cast<std::ptrdiff_t>(random.Next() % buffers.size()));
      for (const size_t at : {size_t{0}, it->second - 1}) ASSERT_EQ(it->first[at], std::byte(it->second));
      ASSERT_TRUE(arenas.Free(it->first));
      buffers.erase(it);
      continue;
    }
    const size_t bytes = PageArenas::kBytesMin + random.Next() % (72 << 10);
    std::byte* const buffer = arenas.Allocate(bytes);
    if (buffer == nullptr) {  // enough is free elsewhere
      ASSERT_GT(arenas.held() - arenas.used(), arenas.used() / 4);
      continue;
    }
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer) % PageArenas::kGrain, 0u);
    const auto next = buffers.lower_bound(buffer);
    ASSERT_TRUE(next == buffers.end() || buffer + bytes <= next->first);
    if (next != buffers.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, buffer);
    }
    std::memset(buffer, static_cast<int>(bytes), bytes);
    buffers.emplace(buffer, bytes);
    ASSERT_EQ(arenas.held(), heap.taken.size() * PageArenas::kArenaBytes);
  }
  ASSERT_GT(buffers.size(), 1000u);
  for (const auto& [buffer, bytes] : buffers) ASSERT_TRUE(arenas.Free(buffer));
  EXPECT_EQ(arenas.used(), 0u);
  EXPECT_EQ(heap.taken.size(), 1u) << "one is kept for the next buffer";
}

TEST(PageArenasTest, GrowingLeavesLittleFree) {
  Heap heap;
  PageArenas arenas(heap);
  size_t elsewhere = 0;
  std::vector<std::byte*> all;
  for (int i = 0; i < 2000;
       ++i) {  // pages grow, one after the other, and their smaller buffers are free then
    std::byte* const before = arenas.Allocate(40 << 10);
    std::byte* const after = arenas.Allocate(50 << 10);
    elsewhere += after == nullptr ? 1 : 0;
    if (before != nullptr) {
      EXPECT_TRUE(arenas.Free(before));
    }
    if (after != nullptr) all.push_back(after);
    EXPECT_LE(arenas.held() - arenas.used(), arenas.used() / 4 + 2 * PageArenas::kArenaBytes);
  }
  EXPECT_LT(elsewhere, 20u);
  for (std::byte* const buffer : all) EXPECT_TRUE(arenas.Free(buffer));
}

TEST(PageArenasTest, GivesNothingThatIsNotWorthIt) {
  Heap heap;
  PageArenas arenas(heap);
  EXPECT_EQ(arenas.Allocate(PageArenas::kBytesMin - 1), nullptr);
  EXPECT_EQ(arenas.Allocate(PageArenas::kBytesMax + 1), nullptr);
  EXPECT_EQ(arenas.held(), 0u);
  std::byte other{};
  EXPECT_FALSE(arenas.Free(&other));
  heap.most = 0;
  EXPECT_EQ(arenas.Allocate(PageArenas::kBytesMin), nullptr) << "the machine has none";
}

// A memory that counts.
class Counted final : public PageMemory {
 public:
  std::byte* Allocate(size_t bytes) override {
    std::byte* const buffer = arenas_.Allocate(bytes);
    given += buffer == nullptr ? 0 : 1;
    return buffer;
  }
  bool Free(std::byte* buffer) override { return arenas_.Free(buffer); }
  uint64_t used() const { return arenas_.used(); }
  int given = 0;

 private:
  Heap heap_;
  PageArenas arenas_{heap_};
};

TEST(PageArenasTest, RowsDoNotDependOnWhereTheyLie) {
  Schema schema;
  schema.dim = 16;
  schema.rule = Add{};
  Counted memory;
  const auto hash = [&] {
    TableStore store(TableId(3), schema, 0);
    world::SplitMix64 random(5);
    std::vector<uint64_t> keys(1000);
    std::vector<float> values(keys.size() * schema.dim);
    for (uint64_t version = 1; version <= 20; ++version) {
      for (uint64_t& key : keys) key = random.Next() % 10'000;
      for (float& value : values) value = static_cast<float>(random.Next() % 100);
      store.Update(keys, values, Lsn(version));
    }
    return store.Hash();
  };
  const uint64_t on_the_heap = hash();
  UsePageMemory(&memory);
  const uint64_t in_arenas = hash();
  UsePageMemory(nullptr);
  EXPECT_GT(memory.given, 10);
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_EQ(in_arenas, on_the_heap);
}

}  // namespace
}  // namespace paceline::table
