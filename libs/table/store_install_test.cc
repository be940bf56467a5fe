// Pages on their way between stores: snapshots, recovery, movement.

#include <algorithm>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/table/store.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

using ::absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr TableId kTable(4);
constexpr int kRingBits = 2;

// A log of updates, all of one segment of a sparse table or of any blocks of a ranged one.
struct Record {
  std::vector<uint64_t> keys;
  std::vector<float> gradients;
};

std::vector<Record> RandomLog(world::Random& random, const Schema& schema, size_t records,
                              size_t population) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < population; ++i) {
    keys.push_back(schema.kind == Kind::kRanged ? world::Uniform(random, schema.rows)
                                                : KeyWithHash(kTable, random.Next() >> kRingBits));
  }
  std::vector<Record> log(records);
  for (Record& record : log) {
    record.keys.resize(1 + world::Uniform(random, 10));
    for (uint64_t& key : record.keys) key = keys[world::Uniform(random, population)];
    const float gradient = static_cast<float>(world::UnitInterval(random) - 0.5);
    record.gradients.assign(record.keys.size() * schema.dim, gradient);
  }
  return log;
}

void Apply(TableStore& store, const std::vector<Record>& log, size_t lsn) {
  store.Update(log[lsn - 1].keys, log[lsn - 1].gradients, Lsn(lsn));
}

std::vector<PageImage> ImagesOf(const TableStore& store) {
  std::vector<PageImage> images;
  store.ForEachPage([&](const Page& page) { images.push_back(page.Image()); });
  return images;
}

class InstallTest : public ::testing::TestWithParam<Kind> {
 protected:
  Schema SomeSchema(world::Random& random) {
    Schema schema = {.kind = GetParam(), .init = Normal{}, .rule = Adagrad{}};
    schema.dim = static_cast<uint32_t>(300 + world::Uniform(random, 2000));
    if (world::Chance(random, 0.3)) schema.dim = 1;  // rows of one value take another way
    if (world::Chance(random, 0.5)) schema.rule = Add{};
    schema.rows = GetParam() == Kind::kRanged ? 60 : 0;
    return schema;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, InstallTest, ::testing::Values(Kind::kSparse, Kind::kRanged),
                         [](const auto& instance) {
                           return instance.param == Kind::kSparse ? "Sparse" : "Ranged";
                         });

TEST_P(InstallTest, AllPagesMakeAnEqualStore) {
  world::SplitMix64 random(1);
  const Schema schema = SomeSchema(random);
  TableStore from(kTable, schema, kRingBits);
  const std::vector<Record> log = RandomLog(random, schema, 50, 100);
  for (size_t lsn = 1; lsn <= log.size(); ++lsn) Apply(from, log, lsn);
  TableStore to(kTable, schema, kRingBits);
  std::vector<PageImage> images = ImagesOf(from);
  std::reverse(images.begin(), images.end());
  for (const PageImage& image : images) EXPECT_THAT(to.Install(image), IsOk());
  EXPECT_EQ(from.Hash(), to.Hash());
  EXPECT_EQ(from.rows(), to.rows());
  EXPECT_EQ(ImagesOf(from), ImagesOf(to));
}

// A fuzzy snapshot: pages are copied here and there while the log goes on, only those that changed since the
// last copy, some of them several times; then they are installed in any order, and the log from the oldest
// copy on is applied to what they make.
TEST_P(InstallTest, AFuzzySnapshotAndTheLogMakeAnEqualStore) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    world::SplitMix64 random(seed);
    const Schema schema = SomeSchema(random);
    const std::vector<Record> log = RandomLog(random, schema, 80, 1 + world::Uniform(random, 100));
    TableStore from(kTable, schema, kRingBits);
    std::vector<PageImage> copies;
    const size_t begin = world::Uniform(random, 40);  // everything is copied here once
    const size_t end = begin + world::Uniform(random, 40);
    for (size_t lsn = 0; lsn <= log.size(); ++lsn) {
      if (lsn > 0) Apply(from, log, lsn);
      from.ForEachPage([&](const Page& page) {
        if (lsn == begin || (lsn > begin && lsn <= end && world::Chance(random, 0.2))) {
          copies.push_back(page.Image());
        }
      });
    }
    for (size_t i = copies.size(); i > 1; --i) std::swap(copies[i - 1], copies[world::Uniform(random, i)]);

    TableStore to(kTable, schema, kRingBits);
    for (const PageImage& copy : copies) ASSERT_THAT(to.Install(copy), IsOk());
    const size_t replay = world::Uniform(random, begin + 1);  // may start earlier than it must
    for (size_t lsn = replay + 1; lsn <= log.size(); ++lsn) Apply(to, log, lsn);
    ASSERT_EQ(from.Hash(), to.Hash()) << seed;
    ASSERT_EQ(from.rows(), to.rows());
    const std::vector<PageImage> expected = ImagesOf(from);
    const std::vector<PageImage> got = ImagesOf(to);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(expected[i].range, got[i].range);
      ASSERT_EQ(expected[i].keys, got[i].keys);
      ASSERT_EQ(Bits(expected[i].rows), Bits(got[i].rows));
    }
  }
}

TEST_P(InstallTest, UpdatesAPageCameWithAreNotAppliedAgain) {
  const Schema schema = {.kind = GetParam(), .rows = GetParam() == Kind::kRanged ? 10u : 0u};
  TableStore from(kTable, schema, 0);
  const std::vector<uint64_t> keys = {3};
  const std::vector<float> one = {1};
  for (uint64_t lsn = 1; lsn <= 5; ++lsn) from.Update(keys, one, Lsn(lsn));
  TableStore to(kTable, schema, 0);
  EXPECT_THAT(to.Install(ImagesOf(from)[0]), IsOk());
  for (uint64_t lsn = 1; lsn <= 7; ++lsn) to.Update(keys, one, Lsn(lsn));
  to.Update(keys, one, Lsn(7));  // a record may update a row in several calls
  to.Put(keys, std::vector<float>{100}, Lsn(5));
  if (GetParam() == Kind::kRanged) to.UpdateRange(3, 1, one, Lsn(5));
  float value;
  to.Read(keys, &value);
  EXPECT_EQ(value, 8);
}

// Some pages of a batch came with it, amid others that did not.
TEST_P(InstallTest, ABatchSkipsThePagesThatCameWithIt) {
  for (const uint32_t dim : {1u, 3u, 16u, 40u}) {
    const uint64_t rows = 200'000 / dim;
    const Schema schema = {.kind = GetParam(), .dim = dim, .rows = GetParam() == Kind::kRanged ? rows : 0};
    std::vector<uint64_t> keys(rows);
    std::iota(keys.begin(), keys.end(), uint64_t{0});
    const std::vector<float> ones(rows * dim, 1);
    TableStore from(kTable, schema, 0);
    TableStore to(kTable, schema, 0);
    from.Update(keys, ones, Lsn(1));
    to.Update(keys, ones, Lsn(1));
    from.Update(keys, ones, Lsn(2));
    const std::vector<PageImage> images = ImagesOf(from);
    ASSERT_GT(images.size(), 10);
    for (size_t i = 1; i < images.size(); i += 3) ASSERT_THAT(to.Install(images[i]), IsOk());
    for (size_t begin = 0; begin < rows; begin += 777) {
      const size_t count = std::min<size_t>(777, rows - begin);
      to.Update(KeyView(keys).subview(begin, count), ValueView(ones).subview(begin * dim, count * dim),
                Lsn(2));
    }
    std::vector<float> out(rows * dim);
    to.Read(keys, out.data());
    EXPECT_THAT(out, ::testing::Each(2.0f)) << dim;
    EXPECT_EQ(to.Hash(), from.Hash()) << dim;
  }
}

// One page came with the update. Before its key the batch has others, few or many.
TEST_P(InstallTest, WhatIsBeforeAPageThatCameWithTheBatchIsUpdatedOnce) {
  for (const uint32_t dim : {1u, 16u, 40u}) {
    const uint64_t rows = 100'000 / dim;
    const Schema schema = {.kind = GetParam(), .dim = dim, .rows = GetParam() == Kind::kRanged ? rows : 0};
    std::vector<uint64_t> keys(rows);
    std::iota(keys.begin(), keys.end(), uint64_t{0});
    TableStore from(kTable, schema, 0);
    from.Update(keys, std::vector<float>(rows * dim, 1), Lsn(1));
    const PageImage came = ImagesOf(from)[2];
    for (const size_t before : {0, 1, 7, 8, 63, 64, 65, 128, 135, 200}) {
      TableStore to(kTable, schema, 0);
      to.Update(keys, std::vector<float>(rows * dim, 1), Lsn(1));
      PageImage image = came;
      image.version = Lsn(2);
      ASSERT_THAT(to.Install(image), IsOk());
      std::vector<uint64_t> batch;
      for (size_t i = 0; batch.size() < before && i < rows; ++i) {
        if (!std::ranges::binary_search(came.keys, keys[i])) batch.push_back(keys[i]);
      }
      ASSERT_EQ(batch.size(), before);
      const auto last =
          std::ranges::find_if(came.keys, [&](uint64_t k) { return before == 0 || k > batch.back(); });
      ASSERT_NE(last, came.keys.end());
      batch.push_back(*last);
      std::vector<float> gradients;
      for (size_t i = 0; i < batch.size() * dim; ++i) gradients.push_back(static_cast<float>(i + 1));
      to.Update(batch, gradients, Lsn(2));
      std::vector<float> expected;
      for (size_t i = 0; i < before * dim; ++i) expected.push_back(static_cast<float>(i + 2));
      expected.resize(batch.size() * dim, 1);
      std::vector<float> out(batch.size() * dim);
      to.Read(batch, out.data());
      EXPECT_EQ(out, expected) << dim << " after " << before;
    }
  }
}

TEST(InstallSparseTest, AnOlderRecordGivesNoBirthInAPage) {
  TableStore store(kTable, {}, 0);
  EXPECT_THAT(store.Install({.range = {}, .version = Lsn(5), .keys = {1}, .rows = {2}}), IsOk());
  const std::vector<uint64_t> keys = {1, 7};
  store.Update(keys, std::vector<float>{1, 1}, Lsn(5));
  store.Put(keys, std::vector<float>{1, 1}, Lsn(5));
  EXPECT_EQ(store.rows(), 1u);
  store.Update(keys, std::vector<float>{1, 1}, Lsn(6));
  EXPECT_EQ(store.rows(), 2u);
}

TEST(InstallSparseTest, TheNewerHoldsRangeByRange) {
  const Schema schema = {.dim = 16'382, .rule = Assign{}};  // a page holds one row
  const uint64_t low = KeyWithHash(kTable, 0x1000000000000000);
  const uint64_t high = KeyWithHash(kTable, 0xf000000000000000);
  const auto image = [&](PageRange range, uint64_t version, uint64_t key, float value) {
    return PageImage{range, Lsn(version), {key}, std::vector<float>(16'382, value)};
  };
  const PageImage whole = image({}, 5, low, 5);
  const PageImage upper = image({uint64_t{1} << 63, 1}, 9, high, 9);
  const PageImage late = image({0, 2}, 7, low, 7);
  std::vector<PageImage> images = {whole, upper, late};
  for (const std::vector<int>& order : std::vector<std::vector<int>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 0, 2, 1, 1, 0, 2}}) {
    TableStore store(kTable, schema, 0);
    for (const int i : order) ASSERT_THAT(store.Install(images[i]), IsOk());
    const std::vector<uint64_t> keys = {low, high};
    std::vector<float> out(2 * 16'382);
    store.Read(keys, out.data());
    EXPECT_EQ(out.front(), 7);
    EXPECT_EQ(out.back(), 9);
    EXPECT_EQ(store.rows(), 2u);
  }
}

TEST(InstallSparseTest, AnOlderImageSplitsNothing) {
  TableStore store(kTable, {}, 0);
  const uint64_t key = KeyWithHash(kTable, 0x1000000000000000);
  EXPECT_THAT(store.Install({.range = {}, .version = Lsn(5), .keys = {key}, .rows = {2}}), IsOk());
  EXPECT_THAT(store.Install({.range = {0, 3}, .version = Lsn(4), .keys = {key}, .rows = {1}}), IsOk());
  ASSERT_EQ(ImagesOf(store).size(), 1u);
  EXPECT_EQ(ImagesOf(store)[0].range, PageRange{});
  EXPECT_EQ(ImagesOf(store)[0].rows[0], 2);
}

TEST(InstallSparseTest, RefusesPagesThatAreNotTheTables) {
  TableStore store(kTable, {.dim = 2}, kRingBits);
  const uint64_t key = KeyWithHash(kTable, 0x1000000000000000);  // place 4 << 60
  const PageImage good = {.range = {uint64_t{1} << 62, 2}, .version = Lsn(1), .keys = {key}, .rows = {1, 2}};
  const auto refused = [&](auto change, const char* why) {
    PageImage bad = good;
    change(bad);
    EXPECT_THAT(store.Install(bad), StatusIs(StatusCode::kDataLoss, HasSubstr(why)));
  };
  refused([](PageImage& image) { image.version = Lsn(0); }, "version is 0");
  refused([](PageImage& image) { image.range.depth = -1; }, "range");
  refused([](PageImage& image) { image.range.depth = 63; }, "at most 62 bits");
  refused([](PageImage& image) { image.range.depth = 1; }, "0 after them");
  refused([](PageImage& image) { image.range.start = 0; }, "outside");
  refused([](PageImage& image) { image.rows.pop_back(); }, "1 keys and 1 floats");
  refused([](PageImage& image) { image.keys.clear(); }, "0 keys");
  refused(
      [](PageImage& image) {
        image.keys.push_back(image.keys[0]);
        image.rows.resize(4);
      },
      "out of order");
  refused(
      [](PageImage& image) {
        image.keys.resize(5000);
        image.rows.resize(10000);
      },
      "at most");
  EXPECT_EQ(store.rows(), 0u);
  EXPECT_THAT(store.Install(good), IsOk());
  EXPECT_EQ(store.rows(), 1u);
}

TEST(InstallRangedTest, RefusesBlocksThatAreNotTheTables) {
  TableStore store(kTable, {.kind = Kind::kRanged, .dim = 128, .rows = 5}, 0);  // blocks of two rows
  const PageImage good = {
      .range = {2, 0}, .version = Lsn(1), .keys = {2, 3}, .rows = std::vector<float>(256, 1.0f)};
  const auto refused = [&](auto change, const char* why) {
    PageImage bad = good;
    change(bad);
    EXPECT_THAT(store.Install(bad), StatusIs(StatusCode::kDataLoss, HasSubstr(why)));
  };
  refused([](PageImage& image) { image.version = Lsn(0); }, "version is 0");
  refused([](PageImage& image) { image.range.start = 3; }, "multiple of 2");
  refused([](PageImage& image) { image.range.start = 6; }, "key 6 of 5");
  refused([](PageImage& image) { image.range.depth = 1; }, "multiple of 2");
  refused([](PageImage& image) { image.keys = {2}; }, "expected 2 keys");
  refused([](PageImage& image) { image.keys = {2, 4}; }, "expected 3");
  refused([](PageImage& image) { image.rows.resize(255); }, "255 floats");
  refused([](PageImage& image) { image.range.start = 4; }, "expected 1 keys");
  EXPECT_EQ(store.rows(), 0u);
  EXPECT_THAT(store.Install(good), IsOk());
  EXPECT_EQ(store.rows(), 2u);
}

// A store that learns applies records to what it has. A row that it lacks is born anew by them, so the page
// that comes as of the same record is the one to believe.
TEST_P(InstallTest, TheLaterOfTwoCopiesOfAVersionCounts) {
  world::SplitMix64 random(9);
  const Schema schema = SomeSchema(random);
  const std::vector<Record> log = RandomLog(random, schema, 40, 30);
  TableStore from(kTable, schema, kRingBits);
  for (size_t lsn = 1; lsn <= log.size(); ++lsn) Apply(from, log, lsn);
  TableStore to(kTable, schema, kRingBits);
  Apply(to, log, log.size());
  std::vector<PageImage> images = ImagesOf(from);
  for (PageImage& image : images) {
    image.version = Lsn(log.size());
    ASSERT_THAT(to.Install(image), IsOk());
  }
  EXPECT_EQ(from.Hash(), to.Hash());
  EXPECT_EQ(images, ImagesOf(to));
}

}  // namespace
}  // namespace paceline::table
