#include "libs/table/page.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/ring/hash.h"
#include "libs/table/ranged_page.h"
#include "libs/table/sparse_page.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 0x1234;
uint64_t HashOf(uint64_t key) {
  return ring::Mix64(key + kSeed);
}

void AddRow(SparsePage& page, uint64_t key, float value) {
  const uint32_t row = page.Add(key, HashOf(key));
  for (size_t i = 0; i < page.floats(); ++i) page.Values(row)[i] = value;
}

TEST(SparsePageTest, AnEmptyOneFindsNothingAndHoldsNothing) {
  const SparsePage page({.dim = 4}, kSeed, {});
  EXPECT_EQ(page.Find(0, HashOf(0)), SparsePage::kNoRow);
  EXPECT_EQ(page.Find(~uint64_t{0}, HashOf(7)), SparsePage::kNoRow);
  EXPECT_EQ(page.buffer_bytes(), 0u);
  EXPECT_EQ(page.rows(), 0u);
}

// Of both layouts, and of each stride of narrow rows.
const RowShape kShapes[] = {{.dim = 1},
                            {.dim = 1, .slots_per_value = 1},
                            {.dim = 1, .slots_per_value = 2},
                            {.dim = 3},
                            {.dim = 2, .slots_per_value = 1},
                            {.dim = 16},
                            {.dim = 8, .slots_per_value = 2}};

TEST(SparsePageTest, NarrowRowsLieInBuckets) {
  for (const RowShape& shape : kShapes) EXPECT_EQ(SparsePage::Narrow(shape), shape.floats() <= 3);
}

TEST(SparsePageTest, FindsAddedRowsUntilItIsFull) {
  for (const RowShape& shape : kShapes) {
    SparsePage page(shape, kSeed, {});
    world::SplitMix64 random(1);
    std::map<uint64_t, float> reference;
    while (!page.full()) {
      // The largest key too: buckets that are free have it.
      const uint64_t key =
          reference.size() == 100 ? ~uint64_t{0} : random.Next() >> world::Uniform(random, 64);
      ASSERT_EQ(page.Find(key, HashOf(key)) == SparsePage::kNoRow, !reference.contains(key));
      if (!reference.try_emplace(key, static_cast<float>(reference.size())).second) continue;
      AddRow(page, key, reference[key]);
    }
    EXPECT_EQ(page.rows(), SparsePage::MaxRows(shape));
    EXPECT_LE(page.rows() * (8 + shape.bytes()), kPageBytes);
    EXPECT_GT((page.rows() + 1) * (8 + shape.bytes()), kPageBytes);
    for (const auto& [key, value] : reference) {
      const uint32_t row = page.Find(key, HashOf(key));
      ASSERT_NE(row, SparsePage::kNoRow);
      ASSERT_LT(row, page.numbers());
      EXPECT_EQ(page.Values(row)[shape.dim - 1], value);
    }
    std::map<uint64_t, float> visited;
    page.ForEachRow([&](uint64_t key, size_t row) {
      EXPECT_EQ(page.Find(key, HashOf(key)), row);
      EXPECT_TRUE(visited.emplace(key, *page.Values(row)).second) << "twice";
    });
    EXPECT_EQ(visited, reference);
  }
}

TEST(SparsePageTest, TheKeyOfFreeEntriesIsAKeyLikeOthers) {
  constexpr uint64_t kKey = ~uint64_t{0};
  for (const RowShape& shape : kShapes) {
    SparsePage page(shape, kSeed, {});
    EXPECT_EQ(page.Find(kKey, HashOf(kKey)), SparsePage::kNoRow);
    AddRow(page, 5, 1);
    EXPECT_EQ(page.Find(kKey, HashOf(kKey)), SparsePage::kNoRow);
    AddRow(page, kKey, 2);
    for (uint64_t key = 10; key < 60; ++key) AddRow(page, key, 3);  // it grows
    EXPECT_EQ(*page.Values(page.Find(kKey, HashOf(kKey))), 2);
    EXPECT_EQ(page.Image().keys.back(), kKey);
    SparsePage upper(shape, kSeed, {});
    page.Split(0, upper);
    const bool high = HashOf(kKey) >> 63 != 0;
    EXPECT_EQ(upper.Find(kKey, HashOf(kKey)) != SparsePage::kNoRow, high);
    EXPECT_EQ(page.Find(kKey, HashOf(kKey)) != SparsePage::kNoRow, !high);
    page.Reset(Lsn(5));
    EXPECT_EQ(page.Find(kKey, HashOf(kKey)), SparsePage::kNoRow);
  }
}

// Anybody can choose keys whose hashes agree in what look-ups use.
TEST(SparsePageTest, FindsKeysThatMeetInOneBucket) {
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; keys.size() < 300; ++key) {
    if ((HashOf(key) & 0xffffffff) < uint64_t{1} << 24) keys.push_back(key);
  }
  for (const RowShape& shape : kShapes) {
    SparsePage page(shape, kSeed, {});
    for (const uint64_t key : keys) AddRow(page, key, static_cast<float>(key));
    for (const uint64_t key : keys)
      EXPECT_EQ(*page.Values(page.Find(key, HashOf(key))), static_cast<float>(key));
    for (uint64_t key = keys.back() + 1; key < keys.back() + 1000; ++key) {
      EXPECT_EQ(page.Find(key, HashOf(key)), SparsePage::kNoRow);
    }
  }
}

TEST(SparsePageTest, MemoryFollowsTheRows) {
  std::vector<RowShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), {{.dim = 5460, .slots_per_value = 2}, {.dim = 3000}});
  for (const RowShape& shape : shapes) {
    SparsePage page(shape, kSeed, {});
    for (size_t rows = 1; !page.full(); ++rows) {
      page.Add(rows, HashOf(rows));
      const size_t capacity = SparsePage::CapacityFor(shape, rows);
      EXPECT_GE(capacity, rows);
      EXPECT_LE(capacity, rows + rows / 4);
      EXPECT_EQ(page.buffer_bytes(), SparsePage::BufferBytes(shape, capacity));
      EXPECT_LE(page.buffer_bytes(), capacity * SparsePage::RowBytesBound(shape) + SparsePage::kBufferSlack);
      EXPECT_EQ(SparsePage::CapacityFor(shape, capacity), capacity);
    }
  }
}

TEST(SparsePageTest, SplitsByTheNextBitOfThePlace) {
  for (const RowShape& shape : kShapes) {
    constexpr int kRingBits = 3;
    SparsePage lower(shape, kSeed, {});
    for (uint64_t key = 0; key < 500; ++key) AddRow(lower, key, static_cast<float>(key));
    lower.Touch(Lsn(9));
    SparsePage upper(shape, kSeed, {});
    lower.Split(kRingBits, upper);
    EXPECT_EQ(lower.range(), (PageRange{.start = 0, .depth = 1}));
    EXPECT_EQ(upper.range(), (PageRange{.start = uint64_t{1} << 63, .depth = 1}));
    EXPECT_EQ(upper.version(), Lsn(9));
    EXPECT_EQ(lower.rows() + upper.rows(), 500u);
    for (uint64_t key = 0; key < 500; ++key) {
      const uint64_t place = HashOf(key) << kRingBits;
      const bool high = place >> 63 != 0;
      EXPECT_EQ(upper.range().Covers(place), high);
      EXPECT_EQ(lower.range().Covers(place), !high);
      EXPECT_EQ((high ? lower : upper).Find(key, HashOf(key)), SparsePage::kNoRow);
      const SparsePage& page = high ? upper : lower;
      const uint32_t row = page.Find(key, HashOf(key));
      ASSERT_NE(row, SparsePage::kNoRow);
      EXPECT_EQ(*page.Values(row), static_cast<float>(key));
    }
    for (const SparsePage* page : {&lower, &upper}) {
      EXPECT_EQ(page->buffer_bytes(),
                SparsePage::BufferBytes(shape, SparsePage::CapacityFor(shape, page->rows())));
    }
  }
}

TEST(SparsePageTest, AHalfMayBeEmpty) {
  for (const RowShape& shape : kShapes) {
    for (const uint64_t half : {0, 1}) {
      SparsePage lower(shape, kSeed, {});
      for (uint64_t key = 0; lower.rows() < 10; ++key) {
        if (HashOf(key) >> 63 == half) AddRow(lower, key, static_cast<float>(key));
      }
      const PageImage before = lower.Image();
      SparsePage upper(shape, kSeed, {});
      lower.Split(0, upper);
      const PageImage after = (half == 0 ? lower : upper).Image();
      EXPECT_EQ(after.keys, before.keys);
      EXPECT_EQ(after.rows, before.rows);
      const SparsePage& empty = half == 0 ? upper : lower;
      EXPECT_EQ(empty.rows(), 0u);
      EXPECT_EQ(empty.buffer_bytes(), 0u);
      EXPECT_EQ(empty.Find(1, HashOf(1)), SparsePage::kNoRow);
    }
  }
}

TEST(SparsePageTest, ResetForgetsTheRows) {
  SparsePage page({.dim = 1}, kSeed, {});
  AddRow(page, 1, 1);
  page.Reset(Lsn(5));
  EXPECT_EQ(page.rows(), 0u);
  EXPECT_EQ(page.version(), Lsn(5));
  EXPECT_TRUE(page.CameWith(Lsn(5)));
  EXPECT_FALSE(page.CameWith(Lsn(6)));
  AddRow(page, 2, 2);
  EXPECT_EQ(page.Find(1, HashOf(1)), SparsePage::kNoRow);
  EXPECT_NE(page.Find(2, HashOf(2)), SparsePage::kNoRow);
}

TEST(SparsePageTest, ResetMakesRoomForTheGivenRows) {
  SparsePage page({.dim = 3}, kSeed, {});
  AddRow(page, 1, 1);
  page.Reset(Lsn(5), 100);
  const size_t bytes = page.buffer_bytes();
  for (uint64_t key = 0; key < 100; ++key) page.AddPacked(key, HashOf(key), std::vector<float>(3).data());
  EXPECT_EQ(page.buffer_bytes(), bytes);
  EXPECT_EQ(bytes, SparsePage::BufferBytes({.dim = 3}, SparsePage::CapacityFor({.dim = 3}, 100)));
}

TEST(SparsePageTest, FilledAtOnceItIsAsFilledRowByRow) {
  for (const size_t rows : {size_t{0}, size_t{1}, size_t{63}, size_t{400}}) {
    SparsePage one_by_one({.dim = 3, .slots_per_value = 1}, kSeed, {});
    for (uint64_t key = 0; key < rows; ++key) {
      one_by_one.AddPacked(key * 3, HashOf(key * 3), std::vector<float>(6, key + 0.5f).data());
    }
    const PageImage image = one_by_one.Image();
    std::vector<uint64_t> hashes;
    for (const uint64_t key : image.keys) hashes.push_back(HashOf(key));
    SparsePage at_once({.dim = 3, .slots_per_value = 1}, kSeed, {});
    at_once.Reset(Lsn(5), rows);
    at_once.Fill(image.keys, hashes, image.rows);
    EXPECT_EQ(at_once.Image().keys, image.keys);
    EXPECT_EQ(at_once.Image().rows, image.rows);
    for (const uint64_t key : image.keys) {
      const uint32_t row = at_once.Find(key, HashOf(key));
      ASSERT_NE(row, SparsePage::kNoRow);
      EXPECT_EQ(at_once.Values(row)[0], key / 3 + 0.5f);
    }
    EXPECT_EQ(at_once.Find(1, HashOf(1)), SparsePage::kNoRow);
  }
}

// Even ones, all in one corner, and the ends of the range.
TEST(SparsePageTest, AnImageHasItsKeysInOrderHoweverTheyAreSpread) {
  for (const uint64_t step : {uint64_t{1}, uint64_t{1} << 40, (uint64_t{1} << 63) - 1}) {
    SparsePage page({.dim = 1}, kSeed, {});
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 1000; ++i) keys.push_back(i * 7919 % 1000 * step);
    keys.push_back(~uint64_t{0});
    std::set<uint64_t> distinct;
    for (const uint64_t key : keys) {
      if (distinct.insert(key).second) AddRow(page, key, static_cast<float>(key % 1001));
    }
    const PageImage image = page.Image();
    ASSERT_EQ(image.keys, std::vector<uint64_t>(distinct.begin(), distinct.end()));
    for (size_t i = 0; i < image.keys.size(); ++i) {
      ASSERT_EQ(image.rows[i], static_cast<float>(image.keys[i] % 1001));
    }
  }
}

TEST(SparsePageTest, ImagesAndHashesIgnoreTheOrderOfBirth) {
  SparsePage up({.dim = 2, .slots_per_value = 1}, kSeed, {});
  SparsePage down({.dim = 2, .slots_per_value = 1}, kSeed, {});
  const auto add = [](SparsePage& page, uint64_t key) {
    const std::vector<float> row = {key + 0.1f, key + 0.2f, key + 0.3f, key + 0.4f};
    page.AddPacked(key, HashOf(key), row.data());
  };
  for (uint64_t key = 0; key < 100; ++key) {
    add(up, key);
    add(down, 99 - key);
  }
  EXPECT_EQ(up.Image(), down.Image());
  EXPECT_EQ(up.ContentHash(), down.ContentHash());
  EXPECT_EQ(up.Image().keys[7], 7u);
  EXPECT_EQ(up.Image().rows[7 * 4 + 2], 7.3f);
  down.Values(3)[2] += 1;  // a slot
  EXPECT_NE(up.Image(), down.Image());
  EXPECT_NE(up.ContentHash(), down.ContentHash());
}

TEST(SparsePageTest, MarksAreSetOnceAndClearedAround) {
  SparsePage page({.dim = 1}, kSeed, {});
  for (uint64_t key = 0; key < 200; ++key) AddRow(page, key, 0);
  std::vector<size_t> rows;
  page.ForEachRow([&](uint64_t, size_t row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 200u);
  std::set<size_t> marked;
  for (const size_t i : {0, 1, 63, 64, 127, 128, 199}) marked.insert(rows[i]);
  for (const size_t row : marked) EXPECT_FALSE(page.Mark(row)) << row;
  for (const size_t row : marked) EXPECT_TRUE(page.Mark(row)) << row;
  for (const size_t row : marked) page.ClearMarksAround(row);
  for (const size_t row : rows) EXPECT_FALSE(page.Mark(row)) << row;
}

TEST(RangedPageTest, KeepsValuesAndSlotsApart) {
  RangedPage page({.dim = 2, .slots_per_value = 2}, 100, 3);
  const std::vector<float> rows[] = {{1, 2, 3, 4, 5, 6}, {11, 12, 13, 14, 15, 16}, {21, 22, 23, 24, 25, 26}};
  for (size_t row = 0; row < 3; ++row) page.SetRow(row, rows[row].data());
  EXPECT_EQ(page.slot_stride(), 6u);
  EXPECT_THAT(std::vector<float>(page.Values(0), page.Values(0) + 18),
              ElementsAre(1, 2, 11, 12, 21, 22, 3, 4, 13, 14, 23, 24, 5, 6, 15, 16, 25, 26));
  const PageImage image = page.Image();
  EXPECT_EQ(image.range, (PageRange{.start = 100, .depth = 0}));
  EXPECT_THAT(image.keys, ElementsAre(100, 101, 102));
  EXPECT_THAT(image.rows, ElementsAre(1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26));
}

TEST(RangedPageTest, InstallsPagesThatAreNotOlder) {
  RangedPage page({.dim = 1}, 0, 2);
  PageImage image = {.range = {}, .version = Lsn(4), .keys = {0, 1}, .rows = {5, 6}};
  EXPECT_TRUE(page.Install(PageView::Of(image)));
  EXPECT_EQ(page.Image(), image);
  image.rows = {7, 8};
  EXPECT_TRUE(page.Install(PageView::Of(image))) << "of two of one version the one that comes later";
  image.version = Lsn(3);
  image.rows = {9, 10};
  EXPECT_FALSE(page.Install(PageView::Of(image)));
  EXPECT_EQ(page.Values(0)[0], 7);
}

TEST(RangedPageTest, KeysAndHashesMatter) {
  RangedPage a({.dim = 1}, 0, 2);
  RangedPage b({.dim = 1}, 2, 2);
  const std::vector<float> values = {1, 2};
  for (size_t row = 0; row < 2; ++row) {
    a.SetRow(row, &values[row]);
    b.SetRow(row, &values[row]);
  }
  EXPECT_NE(a.ContentHash(), b.ContentHash());
}

}  // namespace
}  // namespace paceline::table
