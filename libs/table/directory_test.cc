#include "libs/table/directory.h"

#include <deque>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

constexpr RowShape kShape = {.dim = 1};

// A directory beside a map from each page's start to the page. The pages have no rows; how many of them count
// as having some is the test's choice.
class DirectoryTest : public ::testing::Test {
 protected:
  SparsePage* NewPage() { return &pages_.emplace_back(kShape, 0, PageRange{}); }

  void Split(uint64_t place, size_t pages_with_rows) {
    SparsePage* lower = directory_.Find(place);
    SparsePage* upper = NewPage();
    lower->Split(0, *upper);
    directory_.Replace(lower, upper, pages_with_rows);
    reference_[upper->range().start] = upper;
  }

  SparsePage* Expected(uint64_t place) { return std::prev(reference_.upper_bound(place))->second; }

  void CheckOrder() {
    auto expected = reference_.begin();
    directory_.ForEach([&](SparsePage& page) {
      ASSERT_NE(expected, reference_.end());
      EXPECT_EQ(&page, expected->second);
      EXPECT_EQ(page.range().start, expected->first);
      ++expected;
    });
    EXPECT_EQ(expected, reference_.end());
  }

  std::deque<SparsePage> pages_;
  SparsePage* root_ = NewPage();
  Directory directory_{root_};
  std::map<uint64_t, SparsePage*> reference_ = {{0, root_}};
  world::SplitMix64 random_{1};
};

TEST_F(DirectoryTest, TheRootCoversAll) {
  for (const uint64_t place : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_EQ(directory_.Find(place), root_);
  }
  CheckOrder();
}

TEST_F(DirectoryTest, FindsThePageThatCoversThePlace) {
  for (size_t i = 0; i < 2000; ++i) {
    Split(random_.Next(), world::Uniform(random_, i + 1));
    for (int probe = 0; probe < 20; ++probe) {
      const uint64_t place = random_.Next();
      ASSERT_EQ(directory_.Find(place), Expected(place));
      ASSERT_TRUE(directory_.Find(place)->range().Covers(place));
    }
  }
  CheckOrder();
}

TEST_F(DirectoryTest, GoesAsDeepAsPlacesDo) {
  const uint64_t place = 0x123456789abcdef1;
  for (int depth = 0; depth < 64; ++depth) Split(place, 1);
  EXPECT_EQ(directory_.Find(place)->range(), (PageRange{.start = place, .depth = 64}));
  for (const auto& [start, page] : reference_) {
    EXPECT_EQ(directory_.Find(start), page);
    EXPECT_EQ(directory_.Find(start - 1), Expected(start - 1));
  }
  CheckOrder();
}

TEST_F(DirectoryTest, DepthCostsNoMemory) {
  for (int place = 0; place < 16; ++place) {
    for (int depth = 4; depth < 64; ++depth) Split(uint64_t{1} * place << 60, pages_.size() / 60);
  }
  EXPECT_LT(directory_.bytes(), pages_.size() * 64);
}

TEST_F(DirectoryTest, KeepsItsBound) {
  for (size_t i = 1; i < 3000; ++i) {
    const size_t bound = directory_.BytesBound(i, 1);
    Split(world::Chance(random_, 0.5) ? random_.Next() : random_.Next() >> 40, i);
    ASSERT_LE(directory_.bytes(), bound);
  }
  CheckOrder();
}

TEST_F(DirectoryTest, CatchesUpWhenPagesGetRows) {
  const uint64_t deep = 0x8000000000000001;
  for (int depth = 0; depth < 40; ++depth) Split(deep, 1);
  for (size_t i = 0; i < 4000; ++i) Split(random_.Next(), 4000);
  for (int probe = 0; probe < 1000; ++probe) {
    const uint64_t place = world::Chance(random_, 0.5) ? random_.Next() : deep ^ (random_.Next() >> 30);
    ASSERT_EQ(directory_.Find(place), Expected(place));
  }
  CheckOrder();
}

TEST_F(DirectoryTest, UsesNodesAgain) {
  for (size_t i = 0; i < 1000; ++i) Split(random_.Next(), 1);
  for (size_t i = 0; i < 50; ++i) Split(random_.Next(), 100'000);  // slots take over from nodes
  const size_t before = directory_.bytes();
  for (uint64_t path = 0; path < 10; ++path) {
    while (directory_.Find(path << 60)->range().depth < 64) Split(path << 60, 1);
  }
  EXPECT_EQ(directory_.bytes(), before);
  CheckOrder();
}

}  // namespace
}  // namespace paceline::table
