#include "libs/table/sparse_page_pool.h"

#include <vector>

#include "gtest/gtest.h"

namespace paceline::table {
namespace {

TEST(SparsePagePoolTest, PagesStayWhereTheyAre) {
  SparsePagePool pool;
  std::vector<SparsePage*> pages;
  for (uint64_t i = 0; i < 20'000; ++i) {
    pages.push_back(&pool.Add({.dim = 4}, /*seed=*/7, {.start = i, .depth = 64}));
  }
  for (uint64_t i = 0; i < pages.size(); ++i) {
    ASSERT_EQ(pages[i]->range().start, i);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(pages[i]) % alignof(SparsePage), 0);
  }
}

TEST(SparsePagePoolTest, ItsBytesAreForeseen) {
  for (const uint64_t more : {uint64_t{1}, uint64_t{2}, uint64_t{9}, uint64_t{1'000}, uint64_t{5'000}}) {
    SparsePagePool pool;
    EXPECT_EQ(pool.bytes(), 0);
    for (uint64_t added = 0; added < 20'000; added += more) {
      const uint64_t then = pool.bytes() + pool.NewBytesBound(more);
      for (uint64_t i = 0; i < more; ++i) (void)pool.Add({.dim = 4}, 7, {});
      ASSERT_LE(pool.bytes(), then) << added << " and " << more;
      ASSERT_LE(pool.bytes(), (added + more) * sizeof(SparsePage) * 9 / 8 + sizeof(SparsePage));
    }
    EXPECT_EQ(pool.NewBytesBound(0), 0);
  }
}

}  // namespace
}  // namespace paceline::table
