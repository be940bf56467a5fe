// Pushes and pulls by range and by key over the same rows, on clusters of several sizes, beside a plain
// array.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/ring/placement.h"
#include "libs/world/random.h"
#include "sdk/cpp/mocks/cluster_fixture.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRingBits = 2;

struct Shape {
  uint64_t rows;
  uint32_t dim;
};
// One block, one that is not full; blocks at their smallest and largest; rows as large as a block; and as
// large as a page may be.
constexpr Shape kShapes[] = {{1, 1}, {255, 1}, {257, 1}, {20'000, 3}, {270'000, 1}, {40, 5'000}, {9, 16'000}};

class RangesTest : public ClusterFixture, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override { StartCluster({.shards = GetParam(), .ring_bits = kRingBits}, {.job = "ranges"}); }
};

// The table as an array: what Add does to it, in the most obvious way.
class Reference {
 public:
  explicit Reference(const Shape& shape) : dim_(shape.dim), values_(shape.rows * shape.dim) {}
  void Push(uint64_t first, const std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) values_[first * dim_ + i] += values[i];
  }
  std::vector<float> Pull(uint64_t first, uint64_t count) const {
    return {values_.begin() + static_cast<int64_t>(first * dim_),
            values_.begin() + static_cast<int64_t>((first + count) * dim_)};
  }

 private:
  const uint32_t dim_;
  std::vector<float> values_;
};

// Where ranges may begin and end so that it matters: around the borders of some blocks, and at both ends.
std::vector<uint64_t> Borders(const Shape& shape) {
  const auto placement = ring::Placement::Ranged(TableId(1), kRingBits, shape.rows, shape.dim);
  EXPECT_THAT(placement, IsOk());
  const uint64_t block = placement->RowsPerBlock();
  const uint64_t blocks = placement->BlockOf(shape.rows - 1) + 1;
  std::set<uint64_t> borders = {0, shape.rows};
  for (const uint64_t b : {uint64_t{1}, uint64_t{2}, blocks / 2, blocks - 1}) {
    for (const int64_t d : {-1, 0, 1}) {
      const int64_t at = static_cast<int64_t>(b * block) + d;
      if (at >= 0 && at <= static_cast<int64_t>(shape.rows)) borders.insert(static_cast<uint64_t>(at));
    }
  }
  return {borders.begin(), borders.end()};
}

TEST_P(RangesTest, BehaveLikeAnArray) {
  world::SplitMix64 random(20'000 + GetParam());
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(absl::StrCat(shape.rows, " rows of ", shape.dim));
    auto table = client_->OpenOrCreate(absl::StrCat("t", shape.rows, "-", shape.dim),
                                       Ranged{.rows = shape.rows, .dim = shape.dim});
    ASSERT_THAT(table, IsOk());
    Reference reference(shape);
    const std::vector<uint64_t> borders = Borders(shape);
    for (int i = 0; i < 30; ++i) {
      uint64_t from = borders[world::Uniform(random, borders.size())];
      uint64_t to = borders[world::Uniform(random, borders.size())];
      if (from > to) std::swap(from, to);
      std::vector<float> values((to - from) * shape.dim);
      for (float& value : values) value = static_cast<float>(world::Uniform(random, 9));
      reference.Push(from, values);
      if (to - from < 300 && world::Chance(random, 0.5)) {
        // By keys, last one first.
        std::vector<uint64_t> keys;
        std::vector<float> rows;
        for (uint64_t k = to; k-- > from;) {
          keys.push_back(k);
          const auto row = values.begin() + static_cast<int64_t>((k - from) * shape.dim);
          rows.insert(rows.end(), row, row + shape.dim);
        }
        ASSERT_THAT(table->Push(keys, rows), IsOk());
      } else {
        ASSERT_THAT(table->PushRange(from, values), IsOk());
      }
      const uint64_t first = std::min(from, shape.rows - 1);
      const uint64_t count = std::min<uint64_t>(to - first + 1, shape.rows - first);
      const auto pulled = table->PullRange(first, count);
      ASSERT_THAT(pulled, IsOk());
      ASSERT_EQ(*pulled, reference.Pull(first, count)) << "rows " << first << " to " << first + count;
      const uint64_t key = world::Uniform(random, shape.rows);
      EXPECT_THAT(table->Pull({key}), IsOkAndHolds(ElementsAreArray(reference.Pull(key, 1))));
    }
    std::vector<float> all(shape.rows * shape.dim);
    ASSERT_THAT(table->PullRange(0, absl::MakeSpan(all)), IsOk());
    EXPECT_EQ(all, reference.Pull(0, shape.rows));
  }
}

// Large enough to go in several batches.
TEST_P(RangesTest, LargeOnesArriveWholeOrNotAtAll) {
  constexpr uint64_t kRows = 24'000;
  constexpr uint32_t kDim = 256;
  auto table = client_->OpenOrCreate("large", Ranged{.rows = kRows, .dim = kDim});
  ASSERT_THAT(table, IsOk());
  std::vector<float> values(kRows * kDim);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009);
  Future<void> first = table->PushRangeAsync(0, values);
  ASSERT_THAT(table->PushRange(1, absl::MakeConstSpan(values).first(values.size() - kDim)), IsOk());
  EXPECT_THAT(first.Get(), IsOk());
  std::vector<float> spoilt = values;
  spoilt.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(table->PushRange(0, spoilt), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nan")));
  EXPECT_THAT(client_->Flush(), IsOk());
  std::vector<float> expected = values;
  for (size_t i = kDim; i < values.size(); ++i) expected[i] += values[i - kDim];
  std::vector<float> pulled(values.size());
  ASSERT_THAT(table->PullRange(0, absl::MakeSpan(pulled)), IsOk());
  EXPECT_EQ(pulled, expected);
}

TEST_P(RangesTest, PullsGoIntoTheCallersMemory) {
  auto table = client_->OpenOrCreate("t", Ranged{.rows = 1'000, .dim = 2});
  ASSERT_THAT(table, IsOk());
  std::vector<float> values(2'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Future<void> pushed = table->PushRangeAsync(0, values);
  std::vector<float> all(2'000, -1), some(4, -1), late(2, -1);
  const std::vector<uint64_t> keys = {999, 3};
  const Future<void> of_all = table->PullRangeAsync(0, absl::MakeSpan(all), {.after = pushed});
  const Future<void> of_some = table->PullAsync(keys, absl::MakeSpan(some), {.after = pushed});
  const Future<void> of_late = table->PullAsync({5}, absl::MakeSpan(late), {.after = of_some});
  EXPECT_THAT(of_late.Get(), IsOk());
  EXPECT_EQ(late, (std::vector<float>{10, 11}));
  EXPECT_EQ(some, (std::vector<float>{1998, 1999, 6, 7}));
  EXPECT_THAT(of_all.Get(), IsOk());
  EXPECT_EQ(all, values);
  EXPECT_THAT(table->PullAsync(keys, absl::MakeSpan(late)).Get(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("room for 2 floats; expected 4")));
  EXPECT_THAT(table->PullRangeAsync(999, absl::MakeSpan(some)).Get(),
              StatusIs(absl::StatusCode::kOutOfRange));
  const auto failed = Future<void>::Ready(absl::AbortedError("before"));
  EXPECT_THAT(table->PullAsync(keys, absl::MakeSpan(some), {.after = failed}).Get(),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(some, (std::vector<float>{1998, 1999, 6, 7}));
}

TEST_P(RangesTest, EmptyOnesDoNothing) {
  auto table = client_->OpenOrCreate("t", Ranged{.rows = 10, .dim = 2});
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(table->PushRange(10, {}), IsOk());
  EXPECT_THAT(table->PullRange(0, 0), IsOkAndHolds(IsEmpty()));
}

TEST_P(RangesTest, OnesThatComeAfterAFailureAreNotPulled) {
  auto table = client_->OpenOrCreate("t", Ranged{.rows = 10, .dim = 2});
  ASSERT_THAT(table, IsOk());
  const auto failed = Future<void>::Ready(absl::AbortedError("before"));
  EXPECT_THAT(table->PullRange(0, 1, {.after = failed}), StatusIs(absl::StatusCode::kAborted));
  std::vector<float> out(2);
  EXPECT_THAT(table->PullRange(0, absl::MakeSpan(out), {.after = failed}),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_P(RangesTest, OnesThatLeaveTheTableAreRefused) {
  auto table = client_->OpenOrCreate("t", Ranged{.rows = 10, .dim = 2});
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(table->PushRange(9, std::vector<float>(4)),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("10")));
  EXPECT_THAT(table->PullRange(0, 11), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("10")));
  EXPECT_THAT(table->PullRange(~uint64_t{0}, 2), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(table->PushRange(0, std::vector<float>(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiple of 2")));
}

INSTANTIATE_TEST_SUITE_P(Shards, RangesTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace paceline
