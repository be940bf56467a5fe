// Copies of tables that are updated meanwhile hold, bit by bit, the rows of their beginning.
#include "libs/table/table_copy.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/ring/placement.h"
#include "libs/table/store.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr TableId kTable(9);

class Memory final : public CopyMemory {
 public:
  bool Take(uint64_t bytes) override {
    if (taken + bytes > most) return false;
    taken += bytes;
    largest = std::max(largest, taken);
    return true;
  }
  void GiveBack(uint64_t bytes) override {
    ASSERT_LE(bytes, taken);
    taken -= bytes;
  }
  uint64_t most = UINT64_MAX;
  uint64_t taken = 0;
  uint64_t largest = 0;
};

using Rows = std::map<uint64_t, std::vector<uint32_t>>;  // by key, as bits

void AddTo(Rows& rows, const std::vector<uint64_t>& keys, const std::vector<float>& values) {
  const size_t floats = keys.empty() ? 0 : values.size() / keys.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<float> row(values.begin() + i * floats, values.begin() + (i + 1) * floats);
    EXPECT_TRUE(rows.emplace(keys[i], Bits(row)).second) << "key " << keys[i] << " is there twice";
  }
}

// The slow reference: a copy of everything at once.
Rows RowsOf(const TableStore& store) {
  Rows rows;
  store.ForEachPage([&](const Page& page) {
    const PageImage image = page.Image();
    AddTo(rows, image.keys, image.rows);
  });
  return rows;
}

// Updates of any kind that a record makes.
class Pushes {
 public:
  Pushes(TableStore& store, uint64_t seed) : store_(store), random_(seed) {}

  void One() {
    const Schema& schema = store_.schema();
    const uint64_t kind = random_.Next() % 8;
    version_.v += 1;
    if (schema.kind == Kind::kRanged && kind < 3) return Range(schema);
    // Now and then so many new keys that pages are split.
    const size_t count = 1 + random_.Next() % (kind == 7 ? 2000 : 20);
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(schema.kind == Kind::kRanged ? random_.Next() % schema.rows : random_.Next() % 15'000);
    }
    if (kind == 6) {
      std::vector<float> rows = Floats(count * FloatsPerRow(schema));
      store_.Put(keys, rows, version_);
    } else {
      store_.Update(keys, Floats(count * schema.dim), version_);
    }
  }

 private:
  void Range(const Schema& schema) {
    const uint64_t block = ring::Placement::Ranged(kTable, 0, schema.rows, schema.dim).value().RowsPerBlock();
    const uint64_t first = random_.Next() % schema.rows;
    const uint64_t end = std::min(schema.rows, (first / block + 1) * block);
    const uint64_t count = 1 + random_.Next() % (end - first);
    store_.UpdateRange(first, count, Floats(count * schema.dim), version_);
  }
  std::vector<float> Floats(size_t count) {
    std::vector<float> floats(count);
    for (float& value : floats) value = static_cast<float>(random_.Next() % 2001) / 1000.0f - 1.0f;
    return floats;
  }

  TableStore& store_;
  world::SplitMix64 random_;
  Lsn version_;
};

Schema SchemaOf(bool ranged, const Rule& rule, uint32_t dim) {
  return {.kind = ranged ? Kind::kRanged : Kind::kSparse,
          .dim = dim,
          .rows = ranged ? uint64_t{20'000} : 0,
          .init = Uniform{.low = -1, .high = 1},
          .rule = rule,
          .seed = 5};
}

TEST(TableCopyTest, HoldsTheRowsOfItsBeginningDespitePushes) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    world::SplitMix64 random(seed);
    const std::vector<Rule> rules = AllRules();
    const bool ranged = seed % 2 == 0;
    const Rule& rule = rules[seed / 2 % rules.size()];
    const uint32_t dim = 1 + static_cast<uint32_t>(random.Next() % 3) * 7;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ranged ? " ranged " : " sparse ", NameOf(rule), " dim ", dim));
    TableStore store(kTable, SchemaOf(ranged, rule, dim), 0);
    Pushes pushes(store, seed);
    for (uint64_t i = random.Next() % 60; i > 0; --i) pushes.One();
    for (int again = 0; again < 2; ++again) {
      const Rows expected = RowsOf(store);
      auto memory = std::make_shared<Memory>();
      store.BeginCopy(memory);
      Rows copied;
      CopiedRows page;
      for (const uint64_t often = 1 + random.Next() % 6;;) {
        for (uint64_t i = random.Next() % often; i > 0; --i) pushes.One();
        const auto next = store.NextOfCopy(&page);
        ASSERT_THAT(next, IsOk());
        if (!*next) break;
        EXPECT_EQ(page.table, kTable);
        EXPECT_EQ(page.floats, FloatsPerRow(store.schema()));
        EXPECT_LE(page.keys.size() * 4 * dim, kPageBytes) << "one page";
        AddTo(copied, page.keys, page.rows);
      }
      ASSERT_EQ(copied, expected);
      EXPECT_EQ(memory->taken, 0u);
      pushes.One();
    }
  }
}

TEST(TableCopyTest, TakesMemoryForChangedRowsAndReturnsIt) {
  constexpr uint64_t kKeys = 100'000;
  TableStore store(kTable, SchemaOf(false, Adagrad{.lr = 0.1f}, 8), 0);
  std::vector<uint64_t> keys(kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) keys[i] = i;
  const auto push = [&](size_t count, uint64_t version) {
    const std::vector<float> ones(count * 8, 1.0f);
    store.Update(KeyView(keys).subview(0, count), ones, Lsn(version));
  };
  push(kKeys, 1);
  auto memory = std::make_shared<Memory>();
  store.BeginCopy(memory);
  EXPECT_EQ(memory->taken, 0u) << "nothing yet";
  push(1000, 2);
  EXPECT_GT(memory->taken, 1000 * 64u);
  EXPECT_LT(memory->taken, store.bytes() / 10) << "rows, not their pages";
  push(kKeys, 3);
  EXPECT_LT(memory->taken, store.bytes() * 5 / 4);
  store.EndCopy();
  EXPECT_EQ(memory->taken, 0u);

  memory->most = 10 * TableCopy::kMemoryStep;
  store.BeginCopy(memory);
  push(kKeys, 4);
  EXPECT_EQ(memory->taken, 0u) << "there was not enough, and what there was is of no use";
  CopiedRows page;
  EXPECT_THAT(store.NextOfCopy(&page),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
  EXPECT_THAT(store.NextOfCopy(&page), IsOk());
  EXPECT_EQ(store.rows(), kKeys);
}

TEST(TableCopyTest, NeedsLessMemoryWithEachPageThatIsGivenOut) {
  TableStore store(kTable, SchemaOf(true, Add{}, 4), 0);
  const uint64_t block = ring::Placement::Ranged(kTable, 0, 20'000, 4).value().RowsPerBlock();
  const std::vector<float> ones(block * 4, 1.0f);
  const auto push = [&](uint64_t version) {
    for (uint64_t first = 0; first < 20'000; first += block) {
      const uint64_t count = std::min(block, 20'000 - first);
      // Some blocks whole, which are put aside as they are, and of the others some rows.
      const uint64_t rows = version == 1 || first / block % 2 == 0 ? count : count / 3;
      store.UpdateRange(first, rows, ValueView(ones).subview(0, rows * 4), Lsn(version));
    }
  };
  push(1);
  auto memory = std::make_shared<Memory>();
  store.BeginCopy(memory);
  push(2);
  uint64_t taken = memory->taken;
  EXPECT_GT(taken, store.bytes() / 2);
  CopiedRows page;
  while (store.NextOfCopy(&page).value()) {
    EXPECT_LE(memory->taken, taken);
    taken = memory->taken;
  }
  EXPECT_LT(taken, 3 * TableCopy::kMemoryStep) << "with the last one";
  EXPECT_EQ(memory->taken, 0u);
}

TEST(TableCopyTest, ACopyOfAnEmptyTableIsEmpty) {
  for (const bool ranged : {false, true}) {
    TableStore store(kTable, SchemaOf(ranged, Add{}, 1), 0);
    store.BeginCopy(std::make_shared<Memory>());
    Pushes(store, 1).One();
    CopiedRows page;
    EXPECT_FALSE(store.NextOfCopy(&page).value());
  }
}

}  // namespace
}  // namespace paceline::table
