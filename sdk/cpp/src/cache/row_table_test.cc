// The table beside a std::map.
#include "sdk/cpp/src/cache/row_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "libs/world/random.h"

namespace paceline::sdk {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;

// What is written to a row, and must be found there.
struct Written {
  float value = 0;
  PartNumber pushed = 0;
  bool used = false;
};

class Beside {
 public:
  explicit Beside(uint32_t dim) : dim_(dim), table_(dim) {}

  void Add(uint64_t key, const Written& written) {
    if (!rows_.emplace(key, written).second) return;
    const RowTable::Row row = table_.Add(key, SegmentId(static_cast<uint32_t>(key % 7)));
    EXPECT_FALSE(row.entry->has_values());
    std::fill_n(row.values, dim_, written.value);
    row.rest->pushed = written.pushed;
    row.entry->used = written.used;
  }
  void Remove(uint64_t key) {
    RowTable::Entry* const entry = table_.FindEntry(key);
    ASSERT_EQ(entry != nullptr, rows_.erase(key) == 1);
    if (entry != nullptr) table_.Remove(*entry);
  }
  void Clear() {
    rows_.clear();
    table_.Clear();
  }

  void Check() {
    ASSERT_EQ(table_.size(), rows_.size());
    ASSERT_EQ(table_.empty(), rows_.empty());
    std::vector<uint64_t> keys;
    for (const auto& [key, written] : rows_) {
      keys.push_back(key);
      CheckRow(table_.Find(key), key, written);
    }
    std::vector<uint64_t> visited;
    table_.ForEach([&](const RowTable::Row& row) { visited.push_back(row.rest->key); });
    std::ranges::sort(visited);
    ASSERT_EQ(visited, keys);
  }
  // Looks up some keys at once, whether they are there or not.
  void CheckBatch(const std::vector<uint64_t>& keys, uint32_t from) {
    uint32_t next = from;
    table_.FindEach<RowTable::Ahead::kValues>(
        from, static_cast<uint32_t>(keys.size()), [&](uint32_t i) { return keys[i]; },
        [&](uint32_t i, RowTable::Entry* entry, const float* values) {
          ASSERT_EQ(i, next++);
          const auto it = rows_.find(keys[i]);
          ASSERT_EQ(entry != nullptr, it != rows_.end());
          if (entry == nullptr) return;
          ASSERT_EQ(values, table_.ValuesOf(*entry));
          CheckRow(table_.RowOf(*entry), keys[i], it->second);
        });
    EXPECT_EQ(next, keys.size());
  }

 private:
  void CheckRow(const RowTable::Row& row, uint64_t key, const Written& written) {
    ASSERT_TRUE(row);
    ASSERT_EQ(row.entry->key, key);
    ASSERT_EQ(row.rest->key, key);
    ASSERT_EQ(row.rest->segment, SegmentId(static_cast<uint32_t>(key % 7)));
    ASSERT_EQ(row.rest->pushed, written.pushed);
    ASSERT_EQ(row.entry->used, written.used);
    ASSERT_EQ(std::count(row.values, row.values + dim_, written.value), dim_);
  }

  const uint32_t dim_;
  RowTable table_;
  std::map<uint64_t, Written> rows_;
};

class RowTableTest : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Dims, RowTableTest, ::testing::Values(1, 3, 16, 20, 64));

// Grows to some number of rows, and shrinks to another one, again and again.
TEST_P(RowTableTest, FindsWhatAMapFinds) {
  world::SplitMix64 random(GetParam());
  Beside beside(GetParam());
  for (const uint64_t keys : {1, 30, 3, 2'000, 100, 30'000, 10, 500}) {
    for (uint64_t step = 0; step < 4 * keys; ++step) {
      const uint64_t key = world::Uniform(random, keys);
      if (world::Chance(random, 0.6)) {
        beside.Add(key, {.value = static_cast<float>(world::Uniform(random, 1000)),
                         .pushed = world::Uniform(random, 1000),
                         .used = world::Chance(random, 0.5)});
      } else {
        beside.Remove(key);
      }
    }
    beside.Check();
    std::vector<uint64_t> batch(world::Uniform(random, 100));
    for (uint64_t& key : batch) key = world::Uniform(random, 2 * keys);
    beside.CheckBatch(batch, static_cast<uint32_t>(batch.size() / 3));
    for (uint64_t key = 0; key < 30'000; ++key) {
      if (world::Chance(random, 0.9)) beside.Remove(key);
    }
    beside.Check();
  }
  beside.Clear();
  beside.Check();
  beside.Add(5, {.value = 2});
  beside.Check();
}

TEST(RowTable, KeysThatDifferInFewBitsAreFound) {
  for (const int shift : {8, 12, 24, 32, 48}) {
    RowTable table(1);
    for (uint64_t i = 0; i < 10'000; ++i) table.Add(i << shift | 7u << 4, SegmentId(0));
    for (uint64_t i = 0; i < 10'000; ++i) ASSERT_THAT(table.FindEntry(i << shift | 7u << 4), NotNull());
  }
}

TEST(RowTable, SmallestAndLargestKeysAreKeysLikeOthers) {
  RowTable table(1);
  EXPECT_THAT(table.FindEntry(0), IsNull());
  EXPECT_THAT(table.FindEntry(UINT64_MAX), IsNull());
  table.Add(0, SegmentId(1));
  EXPECT_THAT(table.FindEntry(0), NotNull());
  EXPECT_THAT(table.FindEntry(UINT64_MAX), IsNull());
  table.Add(UINT64_MAX, SegmentId(1));
  table.Remove(*table.FindEntry(0));
  EXPECT_THAT(table.FindEntry(0), IsNull());
  EXPECT_THAT(table.FindEntry(UINT64_MAX), NotNull());
}

TEST(RowTable, BatchesOfAnySizeAreLookedUpInOrder) {
  RowTable table(1);
  for (uint64_t key = 0; key < 40; key += 2) table.Add(key, SegmentId(0));
  for (uint32_t to = 0; to < 40; ++to) {
    std::vector<uint32_t> seen;
    table.FindEach<RowTable::Ahead::kValuesAndRest>(
        3, std::max(to, 3u), [](uint32_t i) { return i; },
        [&](uint32_t i, const RowTable::Entry* entry, const float*) {
          EXPECT_EQ(entry != nullptr, i % 2 == 0);
          seen.push_back(i);
        });
    ASSERT_EQ(seen.size(), std::max(to, 3u) - 3);
    for (uint32_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 3 + i);
  }
}

}  // namespace
}  // namespace paceline::sdk
