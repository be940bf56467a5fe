#include "libs/table/store.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/ring/placement.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

constexpr TableId kTable(3);

std::vector<float> ReadAll(const TableStore& store, const std::vector<uint64_t>& keys) {
  std::vector<float> out(keys.size() * store.schema().dim);
  store.Read(keys, out.data());
  return out;
}

std::vector<float> RandomGradients(world::Random& random, size_t count) {
  std::vector<float> gradients(count);
  for (float& g : gradients) g = static_cast<float>(world::UnitInterval(random) - 0.5);
  return gradients;
}

// Rows of the store against those of the reference, slots included.
void ExpectSameRows(const TableStore& store, const ReferenceStore& reference) {
  size_t rows = 0;
  store.ForEachPage([&](const Page& page) {
    const PageImage image = page.Image();
    const size_t floats = FloatsPerRow(store.schema());
    for (size_t i = 0; i < image.keys.size(); ++i) {
      if (!reference.Has(image.keys[i])) continue;  // born with the rest of its block
      ++rows;
      const std::vector<float> row(image.rows.begin() + i * floats, image.rows.begin() + (i + 1) * floats);
      ASSERT_EQ(Bits(row), Bits(reference.Packed(image.keys[i]))) << image.keys[i];
    }
  });
  EXPECT_EQ(rows, reference.rows());
}

class StoreRuleTest : public ::testing::TestWithParam<Rule> {};

INSTANTIATE_TEST_SUITE_P(All, StoreRuleTest, ::testing::ValuesIn(AllRules()),
                         [](const auto& instance) { return NameOf(instance.param); });

// Random batches, with repeats and unborn reads, keys few or many, some of them extreme.
TEST_P(StoreRuleTest, SparseEqualsTheReference) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    world::SplitMix64 random(seed);
    const Schema schema = {.dim = static_cast<uint32_t>(1 + world::Uniform(random, 40)),
                           .init = Normal{0, 0.1f},
                           .rule = GetParam(),
                           .seed = seed};
    TableStore store(kTable, schema, 0);
    ReferenceStore reference(schema);
    const uint64_t population = uint64_t{1} << world::Uniform(random, 12);
    const auto any_key = [&] {
      const uint64_t key = world::Uniform(random, population + 1);
      return world::Chance(random, 0.5) ? key : ~key;  // 0 and 2^64 - 1 are among them
    };
    for (uint64_t step = 1; step <= 60; ++step) {
      std::vector<uint64_t> keys(world::Uniform(random, 100));
      for (uint64_t& key : keys) key = any_key();
      if (world::Chance(random, 0.6)) {
        const std::vector<float> gradients = RandomGradients(random, keys.size() * schema.dim);
        store.Update(keys, gradients, Lsn(step));
        reference.Update(keys, gradients);
      } else {
        ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys)));
      }
      ASSERT_EQ(store.rows(), reference.rows());
    }
    ExpectSameRows(store, reference);
  }
}

TEST_P(StoreRuleTest, RangedEqualsTheReference) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    world::SplitMix64 random(seed);
    const int ring_bits = static_cast<int>(world::Uniform(random, 3));
    const Schema schema = {.kind = Kind::kRanged,
                           .dim = static_cast<uint32_t>(1 + world::Uniform(random, 24)),
                           .rows = 1 + world::Uniform(random, 1000),
                           .init = Uniform{-1, 1},
                           .rule = GetParam(),
                           .seed = seed};
    const auto placement = ring::Placement::Ranged(kTable, ring_bits, schema.rows, schema.dim).value();
    TableStore store(kTable, schema, ring_bits);  // stands for all segments at once
    ReferenceStore reference(schema);
    for (uint64_t step = 1; step <= 40; ++step) {
      const uint64_t first = world::Uniform(random, schema.rows);
      const uint64_t count = world::Uniform(random, std::min<uint64_t>(schema.rows - first, 100) + 1);
      std::vector<uint64_t> keys;
      for (uint64_t i = 0; i < count; ++i) {
        keys.push_back(step % 2 == 0 ? first + i : world::Uniform(random, schema.rows));
      }
      const std::vector<float> gradients = RandomGradients(random, count * schema.dim);
      reference.Update(keys, gradients);
      if (step % 2 != 0) store.Update(keys, gradients, Lsn(step));
      const std::vector<ring::Piece> pieces = placement.ForRange(first, count).value();
      for (const ring::Piece& piece : pieces) {
        if (step % 2 != 0) break;
        const ValueView part =
            ValueView(gradients).subview((piece.first - first) * schema.dim, piece.count * schema.dim);
        store.UpdateRange(piece.first, piece.count, part, Lsn(step));
      }
      std::vector<float> out(count * schema.dim);
      for (const ring::Piece& piece : pieces) {
        store.ReadRange(piece.first, piece.count, out.data() + (piece.first - first) * schema.dim);
      }
      std::vector<uint64_t> range;
      for (uint64_t i = 0; i < count; ++i) range.push_back(first + i);
      ASSERT_EQ(Bits(out), Bits(reference.Read(range)));
      ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys)));
    }
    ExpectSameRows(store, reference);
  }
}

TEST_P(StoreRuleTest, RepeatsAreFoldedBeforeTheRuleSeesThem) {
  const Schema schema = {.dim = 3, .init = Constant{0.5f}, .rule = GetParam()};
  TableStore store(kTable, schema, 0);
  ReferenceStore reference(schema);
  world::SplitMix64 random(4);
  const std::vector<uint64_t> batches[] = {
      {5, 5}, {1, 5, 2, 5, 1, 5}, {7, 7, 7, 7, 7, 7, 7}, {1, 2, 3}, {3, 2, 1, 1, 2, 3}};
  for (const std::vector<uint64_t>& keys : batches) {
    const std::vector<float> gradients = RandomGradients(random, keys.size() * schema.dim);
    store.Update(keys, gradients, Lsn(1));
    reference.Update(keys, gradients);
    ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys)));
  }
  ExpectSameRows(store, reference);
}

// Rows of one value take another way than wider ones, rows without slots than those with some, and distinct
// keys than repeated ones.
class StoreWaysTest : public ::testing::TestWithParam<std::tuple<Rule, Kind, uint32_t>> {};

std::string NameOfWays(const ::testing::TestParamInfo<StoreWaysTest::ParamType>& ways) {
  const Kind kind = std::get<1>(ways.param);
  return absl::StrCat(NameOf(std::get<0>(ways.param)), kind == Kind::kSparse ? "Sparse" : "Ranged",
                      std::get<2>(ways.param));
}
INSTANTIATE_TEST_SUITE_P(All, StoreWaysTest,
                         ::testing::Combine(::testing::ValuesIn(AllRules()),
                                            ::testing::Values(Kind::kSparse, Kind::kRanged),
                                            ::testing::Values(1u, 3u, 16u, 40u)),
                         NameOfWays);

TEST_P(StoreWaysTest, AllWaysEqualTheReference) {
  const auto& [rule, kind, dim] = GetParam();
  const Schema schema = {.kind = kind,
                         .dim = dim,
                         .rows = kind == Kind::kRanged ? 1'000u : 0u,
                         .init = Uniform{-1, 1},
                         .rule = rule};
  TableStore store(kTable, schema, 0);
  ReferenceStore reference(schema);
  world::SplitMix64 random(6);
  for (uint64_t round = 1; round <= 30; ++round) {
    const uint64_t end = round < 11 ? 300 : 1'000;  // in round 11 some blocks are born amid the batch
    std::vector<uint64_t> keys;
    for (uint64_t key = world::Uniform(random, 9); key < end; key += 1 + world::Uniform(random, 9)) {
      keys.push_back(key);
    }
    if (round % 3 == 0) std::swap(keys.front(), keys.back());  // distinct still, but not sorted
    if (round % 5 == 0) keys.push_back(keys[keys.size() / 2]);
    ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys))) << "round " << round;
    const std::vector<float> gradients = RandomGradients(random, keys.size() * dim);
    store.Update(keys, gradients, Lsn(round));
    reference.Update(keys, gradients);
    ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys))) << "round " << round;
  }
  ExpectSameRows(store, reference);
}

// A batch of `size` rows, of which one is not born at first, equals the reference; among them the last one
// has the largest key if `with_largest`.
void CheckBatch(const Schema& schema, uint64_t size, uint64_t missing, bool with_largest) {
  TableStore store(kTable, schema, 0);
  ReferenceStore reference(schema);
  std::vector<uint64_t> keys(size);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  if (with_largest && size > 0) keys.back() = ~uint64_t{0};
  std::vector<uint64_t> born = keys;
  if (missing < size) born.erase(born.begin() + static_cast<ptrdiff_t>(missing));
  world::SplitMix64 random(size);
  for (uint64_t round = 1; round <= 3; ++round) {
    const std::vector<uint64_t>& some = round == 1 ? born : keys;
    const std::vector<float> gradients = RandomGradients(random, some.size() * schema.dim);
    store.Update(some, gradients, Lsn(round));
    reference.Update(some, gradients);
    ASSERT_EQ(Bits(ReadAll(store, keys)), Bits(reference.Read(keys))) << size << " without " << missing;
  }
}

TEST(StoreTest, BatchesOfAnyLengthEqualTheReference) {
  for (uint64_t size = 0; size < 40; ++size) {
    for (uint64_t missing = 0; missing <= size; ++missing) CheckBatch({.dim = 16}, size, missing, false);
  }
  // Rows that fill a page each, so that one of a ranged table can be missing.
  const Schema ranged = {.kind = Kind::kRanged, .dim = kPageBytes / sizeof(float), .rows = 100};
  for (uint64_t size = 0; size < 60; size += 7) {
    for (uint64_t missing = 0; missing <= size; missing += 9) CheckBatch(ranged, size, missing, false);
  }
}

// Rows are looked up 64 at a time, and fetched and taken by eights: around these numbers.
TEST(StoreTest, LongBatchesEqualTheReference) {
  for (const uint32_t dim : {1u, 4u, 16u, 40u, 300u}) {
    for (const uint64_t size : {63, 64, 65, 71, 72, 73, 127, 128, 129, 136, 137, 200}) {
      for (const uint64_t missing : {uint64_t{0}, uint64_t{7}, uint64_t{8}, uint64_t{63}, uint64_t{64},
                                     uint64_t{65}, uint64_t{128}, size - 1, size}) {
        CheckBatch({.dim = dim}, size, missing, (size + missing) % 2 == 0);
      }
    }
  }
}

TEST(StoreTest, ReadingGivesNoBirth) {
  const Schema schema = {.dim = 700, .init = Normal{2, 3}, .seed = 11};
  TableStore store(kTable, schema, 0);
  const std::vector<uint64_t> keys = {0, 1, ~uint64_t{0}};
  const std::vector<float> before = ReadAll(store, keys);
  EXPECT_EQ(store.rows(), 0u);
  std::vector<float> row(700);
  Fill(schema.init, schema.seed, ~uint64_t{0}, 0, absl::MakeSpan(row));
  EXPECT_TRUE(std::equal(row.begin(), row.end(), before.begin() + 1400));
  store.Update(keys, std::vector<float>(2100, 0.0f), Lsn(1));  // adds 0
  EXPECT_EQ(store.rows(), 3u);
  EXPECT_EQ(Bits(ReadAll(store, keys)), Bits(before));
}

TEST(StoreTest, TakesBytesAtAnyAddress) {
  const Schema schema = {.dim = 5};
  TableStore store(kTable, schema, 0);
  const std::vector<uint64_t> keys = {9, 8, 7};
  const std::vector<float> gradients = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string key_bytes(shift + 24, '\0'), value_bytes(shift + 60, '\0'), out(shift + 60, '\0');
    std::memcpy(key_bytes.data() + shift, keys.data(), 24);
    std::memcpy(value_bytes.data() + shift, gradients.data(), 60);
    store.Update(KeyView(key_bytes.data() + shift, 3), ValueView(value_bytes.data() + shift, 15), Lsn(1));
    store.Read(KeyView(key_bytes.data() + shift, 3), out.data() + shift);
    EXPECT_EQ(ValueView(out.data() + shift, 15)[14], 15.0f * (shift + 1));
  }
}

TEST(StoreTest, PutReplacesValuesAndSlots) {
  for (const Kind kind : {Kind::kSparse, Kind::kRanged}) {
    const Schema schema = {
        .kind = kind, .dim = 2, .rows = kind == Kind::kRanged ? 50u : 0u, .rule = Adagrad{}};
    TableStore store(kTable, schema, 0);
    const std::vector<uint64_t> keys = {4, 40, 4};
    store.Put(keys, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, Lsn(3));
    EXPECT_EQ(ReadAll(store, keys), (std::vector<float>{9, 10, 5, 6, 9, 10}));
    bool seen = false;
    store.ForEachPage([&](const Page& page) {
      EXPECT_EQ(page.version(), Lsn(3));
      page.ForEachRow([&](uint64_t key, size_t row) {
        if (key != 40) return;
        seen = true;
        EXPECT_EQ(page.Values(row)[page.slot_stride() + 1], 8);
      });
    });
    EXPECT_TRUE(seen);
  }
}

TEST(StoreTest, PagesCarryTheVersionThatTouchedThem) {
  const Schema schema = {.kind = Kind::kRanged, .dim = 256, .rows = 7};
  TableStore store(kTable, schema, 0);  // a row is a block
  store.UpdateRange(3, 1, std::vector<float>(256, 1.0f), Lsn(7));
  store.UpdateRange(5, 1, std::vector<float>(256, 1.0f), Lsn(8));
  const std::vector<uint64_t> keys = {3};
  store.Update(keys, std::vector<float>(256, 1.0f), Lsn(9));
  std::vector<std::pair<uint64_t, Lsn>> pages;
  store.ForEachPage([&](const Page& page) { pages.emplace_back(page.range().start, page.version()); });
  EXPECT_EQ(pages, (std::vector<std::pair<uint64_t, Lsn>>{{3, Lsn(9)}, {5, Lsn(8)}}));
  EXPECT_EQ(store.rows(), 2u);
}

TEST(StoreTest, EmptyBatchesDoNothing) {
  TableStore sparse(kTable, {}, 0);
  sparse.Update(KeyView(), ValueView(), Lsn(1));
  sparse.Read(KeyView(), nullptr);
  EXPECT_EQ(sparse.NewBytesBound(KeyView()), 0u);
  EXPECT_EQ(sparse.rows(), 0u);
  TableStore ranged(kTable, {.kind = Kind::kRanged, .rows = 5}, 0);
  ranged.UpdateRange(0, 0, ValueView(), Lsn(1));
  ranged.ReadRange(5, 0, nullptr);
  EXPECT_EQ(ranged.rows(), 0u);
}

TEST(StoreTest, HashTellsRowsValuesAndSlots) {
  const std::vector<uint64_t> keys = {1}, other = {2};
  const auto hash = [](const std::vector<uint64_t>& k, std::vector<float> row) {
    TableStore store(kTable, {.rule = Adagrad{}}, 0);
    store.Put(k, row, Lsn(1));
    return store.Hash();
  };
  EXPECT_EQ(hash(keys, {1, 2}), hash(keys, {1, 2}));
  EXPECT_NE(hash(keys, {1, 2}), hash(other, {1, 2}));
  EXPECT_NE(hash(keys, {1, 2}), hash(keys, {3, 2}));
  EXPECT_NE(hash(keys, {1, 2}), hash(keys, {1, 3}));
  EXPECT_NE(hash(keys, {0.0f, 2}), hash(keys, {-0.0f, 2}));
  EXPECT_NE(hash(keys, {1, 2}), TableStore(kTable, {.rule = Adagrad{}}, 0).Hash());
}

}  // namespace
}  // namespace paceline::table
