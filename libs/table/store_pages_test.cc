// The spread of rows over pages, and its cost.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "libs/ring/placement.h"
#include "libs/table/page_memory.h"
#include "libs/table/store.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

constexpr TableId kTable(12);

// `count` keys of the last of 2^ring_bits segments whose places share their first `shared` bits.
std::vector<uint64_t> KeysOfOneSegment(world::Random& random, size_t count, int ring_bits, int shared = 0) {
  std::vector<uint64_t> keys;
  const int fixed = ring_bits + shared;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t low = fixed == 0 ? random.Next() : random.Next() >> fixed;
    const uint64_t high = fixed == 0 ? 0 : ~uint64_t{0} << (64 - fixed);
    keys.push_back(KeyWithHash(kTable, high | low));
  }
  return keys;
}

void AddInBatches(TableStore& store, const std::vector<uint64_t>& keys, size_t batch) {
  for (size_t i = 0; i < keys.size(); i += batch) {
    const size_t count = std::min(batch, keys.size() - i);
    const std::vector<float> gradients(count * store.schema().dim, 1.0f);
    store.Update(KeyView(keys).subview(i, count), gradients, Lsn(1));
  }
}

// The pages that keys must be on by definition: as few as it takes, each a range of places.
void ExpectedPages(std::vector<uint64_t> places, PageRange range, size_t max_rows,
                   std::map<uint64_t, std::pair<int, size_t>>& pages) {
  if (places.empty()) return;
  if (places.size() <= max_rows) {
    pages[range.start] = {range.depth, places.size()};
    return;
  }
  const uint64_t bit = uint64_t{1} << (63 - range.depth);
  const auto middle =
      std::partition(places.begin(), places.end(), [bit](uint64_t place) { return (place & bit) == 0; });
  ExpectedPages({places.begin(), middle}, {range.start, range.depth + 1}, max_rows, pages);
  ExpectedPages({middle, places.end()}, {range.start | bit, range.depth + 1}, max_rows, pages);
}

std::map<uint64_t, std::pair<int, size_t>> PagesOf(const TableStore& store) {
  std::map<uint64_t, std::pair<int, size_t>> pages;
  uint64_t last = 0;
  store.ForEachPage([&](const Page& page) {
    EXPECT_TRUE(pages.empty() || page.range().start > last);
    last = page.range().start;
    pages[last] = {page.range().depth, page.rows()};
  });
  return pages;
}

struct Spread {
  uint32_t dim;
  size_t keys;
  int ring_bits;
  int shared;
};

TEST(StorePagesTest, FollowFromTheKeysAlone) {
  for (const Spread& spread : {Spread{1, 15'000, 0, 0}, Spread{16, 4'000, 6, 0}, Spread{64, 1'500, 16, 0},
                               Spread{16'382, 60, 0, 0}, Spread{9'000, 40, 16, 30}, Spread{1, 6'000, 16, 33},
                               Spread{64, 1'000, 0, 54}, Spread{3, 8'000, 4, 0}}) {
    world::SplitMix64 random(spread.dim);
    std::vector<uint64_t> keys = KeysOfOneSegment(random, spread.keys, spread.ring_bits, spread.shared);
    std::set<uint64_t> places;
    for (const uint64_t key : keys) places.insert(ring::Mix64(kTable, key) << spread.ring_bits);
    std::map<uint64_t, std::pair<int, size_t>> expected;
    ExpectedPages({places.begin(), places.end()}, {}, kPageBytes / (8 + 4 * spread.dim), expected);

    const Schema schema = {.dim = spread.dim, .rule = Assign{}};
    TableStore first(kTable, schema, spread.ring_bits);
    AddInBatches(first, keys, 1 + keys.size() / 3);
    EXPECT_EQ(PagesOf(first), expected);
    EXPECT_EQ(first.rows(), places.size());

    std::sort(keys.begin(), keys.end());
    TableStore second(kTable, schema, spread.ring_bits);
    AddInBatches(second, keys, 7);
    EXPECT_EQ(PagesOf(second), expected);
    EXPECT_EQ(first.Hash(), second.Hash());
    EXPECT_EQ(first.rows(), second.rows());

    std::vector<PageImage> images;
    first.ForEachPage([&](const Page& page) { images.push_back(page.Image()); });
    size_t i = 0;
    second.ForEachPage([&](const Page& page) { EXPECT_EQ(page.Image(), images[i++]); });
  }
}

TEST(StorePagesTest, NoneIsLargerThanItMayBe) {
  world::SplitMix64 random(1);
  for (const Rule& rule : AllRules()) {
    for (const uint32_t width : {1u, 5u, 16u, 100u, 5460u}) {
      const uint32_t dim = std::min(width, 16'382 / (1 + SlotsPerValue(rule)));
      const Schema schema = {.dim = dim, .rule = rule};
      TableStore store(kTable, schema, 2);
      AddInBatches(store, KeysOfOneSegment(random, 100'000 / FloatsPerRow(schema) + 20, 2), 100);
      store.ForEachPage([&](const Page& page) {
        EXPECT_LE(page.rows() * (8 + 4 * FloatsPerRow(schema)), kPageBytes);
        const PageImage image = page.Image();
        EXPECT_LE(8 * image.keys.size() + 4 * image.rows.size(), kPageBytes);
      });
    }
  }
}

TEST(StorePagesTest, BlocksAreThoseOfThePlacement) {
  for (const int ring_bits : {0, 6, 16}) {
    const Schema schema = {.kind = Kind::kRanged, .dim = 10, .rows = 100'001, .rule = FtrlProximal{}};
    const auto placement = ring::Placement::Ranged(kTable, ring_bits, schema.rows, schema.dim).value();
    TableStore store(kTable, schema, ring_bits);
    const std::vector<float> gradients(placement.RowsPerBlock() * schema.dim, 1.0f);
    const auto pieces = placement.ForRange(0, schema.rows).value();
    for (const ring::Piece& piece : pieces) {
      store.UpdateRange(piece.first, piece.count, ValueView(gradients).subview(0, piece.count * schema.dim),
                        Lsn(1));
    }
    EXPECT_EQ(store.rows(), schema.rows);
    size_t i = 0;
    store.ForEachPage([&](const Page& page) {
      ASSERT_LT(i, pieces.size());
      EXPECT_EQ(page.range(), (PageRange{.start = pieces[i].first, .depth = 0}));
      EXPECT_EQ(page.rows(), pieces[i++].count);
      EXPECT_LE(page.rows() * schema.dim * sizeof(float), kPageBytes);
    });
    EXPECT_EQ(i, pieces.size());
  }
}

// bytes() never grows by more than was announced, whatever the keys; and what was announced for given keys is
// no more than what was announced for their number.
TEST(StorePagesTest, BytesStayWithinTheirBound) {
  for (const Spread& spread :
       {Spread{1, 12'000, 0, 0}, Spread{16, 4'000, 6, 0}, Spread{4'000, 100, 0, 0}, Spread{16'382, 60, 3, 0},
        Spread{1, 7'000, 16, 33}, Spread{64, 1'000, 0, 52}, Spread{9'000, 40, 16, 40}}) {
    world::SplitMix64 random(spread.keys);
    TableStore store(kTable, {.dim = spread.dim}, spread.ring_bits);
    const std::vector<uint64_t> keys = KeysOfOneSegment(random, spread.keys, spread.ring_bits, spread.shared);
    for (size_t i = 0; i < keys.size();) {
      const size_t count =
          std::min(keys.size() - i, 1 + world::Uniform(random, world::Chance(random, 0.1) ? 3000 : 5));
      const KeyView batch = KeyView(keys).subview(i, count);
      const uint64_t before = store.bytes();
      const uint64_t bound = store.NewBytesBound(batch);
      const uint64_t crude = store.NewBytesBound(count);
      store.Update(batch, std::vector<float>(count * spread.dim, 1.0f), Lsn(1));
      ASSERT_LE(store.bytes() - before, bound);
      ASSERT_LE(store.bytes() - before, crude);
      ASSERT_EQ(store.NewBytesBound(batch), 0u);
      i += count;
    }
    uint64_t pages = 0;
    store.ForEachPage([&](const Page& page) { pages += page.buffer_bytes(); });
    EXPECT_GE(store.bytes(), pages);
    EXPECT_LE(store.bytes(), pages * 3 / 2 + (16 << 10));
  }
}

// Gives no buffers; says whether memory is plenty.
struct Plenty final : PageMemory {
  Plenty() { UsePageMemory(this); }
  ~Plenty() override { UsePageMemory(nullptr); }
  std::byte* Allocate(size_t) override { return nullptr; }
  bool Free(std::byte*) override { return false; }
  bool plenty() const override { return now; }
  bool now = false;
};

// Pages that grew while memory was plenty hold the same rows, within the same bounds from then on, and at
// most some twice the memory.
TEST(StorePagesTest, MemoryIsPlentyForAWhile) {
  for (const Spread& spread : {Spread{1, 12'000, 0, 0}, Spread{16, 6'000, 6, 0}, Spread{64, 2'000, 0, 0},
                               Spread{4'000, 100, 0, 0}, Spread{1, 7'000, 16, 33}}) {
    world::SplitMix64 random(spread.keys);
    Plenty memory;
    TableStore tight(kTable, {.dim = spread.dim}, spread.ring_bits);
    TableStore store(kTable, {.dim = spread.dim}, spread.ring_bits);
    const std::vector<uint64_t> keys = KeysOfOneSegment(random, spread.keys, spread.ring_bits, spread.shared);
    bool grew_ahead = false;
    uint64_t version = 0;
    for (size_t i = 0; i < keys.size();) {
      const size_t count = std::min(keys.size() - i, 1 + world::Uniform(random, 300));
      const KeyView batch = KeyView(keys).subview(i, count);
      const std::vector<float> gradients(count * spread.dim, 1.0f);
      ++version;
      tight.Update(batch, gradients, Lsn(version));
      const uint64_t bound = std::min(store.NewBytesBound(batch), store.NewBytesBound(count));
      const uint64_t before = store.bytes();
      memory.now = i < keys.size() / 3 || world::Chance(random, 0.3);
      store.Update(batch, gradients, Lsn(version));
      if (!memory.now) {
        ASSERT_LE(store.bytes(), before + bound);
        ASSERT_EQ(store.NewBytesBound(batch), 0u);
      }
      memory.now = false;
      grew_ahead |= store.bytes() > tight.bytes();
      ASSERT_LE(store.bytes(), tight.bytes() * 5 / 2 + kPageBytes);
      ASSERT_EQ(store.Hash(), tight.Hash());
      i += count;
    }
    EXPECT_TRUE(grew_ahead);
  }
}

// Its room is filled, and is less than a page of as many rows has otherwise.
TEST(StorePagesTest, APageThatGrewAheadGrowsWithinItsBound) {
  world::SplitMix64 random(7);
  Plenty memory;
  TableStore store(kTable, {.dim = 1}, 0);
  const std::vector<uint64_t> keys = KeysOfOneSegment(random, 2'100, 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyView key = KeyView(keys).subview(i, 1);
    const uint64_t bound = std::min(store.NewBytesBound(key), store.NewBytesBound(1));
    const uint64_t before = store.bytes();
    memory.now = i == 1'024;
    store.Update(key, std::vector<float>{1.0f}, Lsn(i + 1));
    if (!memory.now) {
      ASSERT_LE(store.bytes(), before + bound) << i;
    }
  }
}

TEST(StorePagesTest, TheBoundOfGivenKeysIsClose) {
  world::SplitMix64 random(3);
  TableStore store(kTable, {.dim = 16}, 0);
  AddInBatches(store, KeysOfOneSegment(random, 20'000, 0), 1000);
  uint64_t bounds = 0, grown = store.bytes();
  for (int i = 0; i < 100; ++i) {
    const std::vector<uint64_t> keys = KeysOfOneSegment(random, 200, 0);
    bounds += store.NewBytesBound(keys);
    AddInBatches(store, keys, 200);
  }
  grown = store.bytes() - grown;
  EXPECT_LT(bounds, 5 * grown);
}

TEST(StorePagesTest, BlocksStayWithinTheirBound) {
  world::SplitMix64 random(5);
  const Schema schema = {.kind = Kind::kRanged, .dim = 40, .rows = 50'000, .rule = Adagrad{}};
  TableStore store(kTable, schema, 6);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint64_t> keys(1 + world::Uniform(random, 20));
    for (uint64_t& key : keys) key = world::Uniform(random, schema.rows);
    const uint64_t before = store.bytes();
    const uint64_t bound = store.NewBytesBound(keys);
    EXPECT_LE(bound, store.NewBytesBound(keys.size()));
    store.Update(keys, std::vector<float>(keys.size() * schema.dim, 1.0f), Lsn(1));
    ASSERT_LE(store.bytes() - before, bound);
    ASSERT_EQ(store.NewBytesBound(keys), 0u);
  }
}

// Keys chosen so that their places share 58 bits make the trie deep; nothing else may become large.
// A page of a few narrow rows may grow without another bucket; rows that had found their bucket full then lie
// elsewhere all the same.
TEST(StorePagesTest, NoUpdateOfASmallPageIsLostWhenItGrows) {
  world::SplitMix64 random(1);
  Schema schema;
  schema.rule = Assign{};
  for (int round = 0; round < 3000; ++round) {
    TableStore store(kTable, schema, 0);
    std::map<uint64_t, float> expected;
    for (uint64_t batch = 1; batch <= 6; ++batch) {
      std::set<uint64_t> distinct;
      for (uint64_t i = world::Uniform(random, 6); i > 0; --i) distinct.insert(random.Next());
      for (const auto& [key, value] : expected) {
        if (world::Uniform(random, 3) == 0) distinct.insert(key);
      }
      const std::vector<uint64_t> keys(distinct.begin(), distinct.end());
      std::vector<float> values;
      for (const uint64_t key : keys) {
        values.push_back(static_cast<float>(world::Uniform(random, 1 << 20)));
        expected[key] = values.back();
      }
      store.Update(keys, values, Lsn(batch));
    }
    std::vector<uint64_t> keys;
    for (const auto& [key, value] : expected) keys.push_back(key);
    std::vector<float> found(keys.size());
    store.Read(keys, found.data());
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(found[i], expected[keys[i]]) << "round " << round;
  }
}

TEST(StorePagesTest, KeysChosenToCollideCostLittle) {
  TableStore store(kTable, {.dim = 1'000}, 0);
  world::SplitMix64 random(7);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 64; ++i) keys.push_back(KeyWithHash(kTable, 0xabcdef0123456780 << 1 | i));
  AddInBatches(store, keys, 64);
  EXPECT_EQ(store.rows(), 64u);
  EXPECT_LT(store.bytes(), 64 * 4'000 * 5 / 4 + 64 * 256);
}

TEST(StorePagesDeathTest, AKeyOfAnotherSegmentIsABug) {
  constexpr int kRingBits = 16;
  TableStore store(kTable, {.dim = 16'382}, kRingBits);
  const std::vector<uint64_t> keys = {KeyWithHash(kTable, 5), KeyWithHash(kTable, 5 | uint64_t{1} << 63)};
  EXPECT_DEATH(store.Update(keys, std::vector<float>(2 * 16'382), Lsn(1)), "not of one segment");
}

TEST(StorePagesDeathTest, KeysAndRangesThatDoNotExistAreFatal) {
  TableStore store(kTable, {.kind = Kind::kRanged, .dim = 128, .rows = 5}, 0);  // blocks of 2, 2 and 1 rows
  const std::vector<float> three(3 * 128);
  const std::vector<uint64_t> keys = {5};
  EXPECT_DEATH(store.Update(keys, std::vector<float>(128), Lsn(1)), "key 5 of a table of 5 rows");
  EXPECT_DEATH(store.UpdateRange(0, 3, three, Lsn(1)), "keys 0 and 2 more are not in one block of 2");
  EXPECT_DEATH(store.UpdateRange(4, 2, std::vector<float>(2 * 128), Lsn(1)), "keys 4 and 1 more");
  EXPECT_DEATH(store.UpdateRange(6, 1, std::vector<float>(128), Lsn(1)), "key 6 of a table of 5 rows");
  EXPECT_DEATH(store.UpdateRange(0, 1, three, Lsn(1)), "384 floats for 1 rows of 128");
}

TEST(StorePagesTest, AWalkContinuesAtTheGivenPlace) {
  for (const Kind kind : {Kind::kSparse, Kind::kRanged}) {
    Schema schema{.kind = kind, .dim = 2000};
    if (kind == Kind::kRanged) schema.rows = 500;
    TableStore store(TableId(1), schema, 0);
    std::vector<uint64_t> keys(300);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    store.Update(keys, std::vector<float>(keys.size() * schema.dim), Lsn(1));
    std::vector<uint64_t> starts;
    store.ForEachPage([&](const Page& page) { starts.push_back(page.range().start); });
    ASSERT_GT(starts.size(), 30u);
    ASSERT_TRUE(std::is_sorted(starts.begin(), starts.end()));
    for (size_t from = 0; from < starts.size(); ++from) {
      for (const uint64_t place : {starts[from], starts[from] - 1, starts[from] + 1}) {
        std::vector<uint64_t> expected;
        std::copy_if(starts.begin(), starts.end(), std::back_inserter(expected),
                     [place](uint64_t start) { return start >= place; });
        expected.resize(std::min<size_t>(expected.size(), 5));
        std::vector<uint64_t> got;
        store.ForEachPage(place, [&](const Page& page) {
          got.push_back(page.range().start);
          return got.size() < 5;
        });
        ASSERT_EQ(got, expected) << place;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::table
