#include "sdk/cpp/src/bound/unseen_updates.h"

#include <cmath>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/world/random.h"
#include "sdk/cpp/src/testing/cache_tables.h"

namespace paceline::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TableId kTable{3};
constexpr SegmentId kHere{1};
constexpr SegmentId kThere{2};

WeighedPush PushOf(std::map<SegmentId, std::vector<WeighedPush::Row>> segments, TableId table = kTable) {
  WeighedPush push{.table = table, .segments = std::move(segments)};
  for (const auto& [segment, rows] : push.segments) push.rows += rows.size();
  return push;
}

TEST(UnseenUpdatesTest, APushFitsAloneOrWithinTheBound) {
  UnseenUpdates unseen;
  const WeighedPush half = PushOf({{kHere, {{7, 0.5}}}});
  const WeighedPush large = PushOf({{kHere, {{7, 9}}}});
  EXPECT_TRUE(unseen.Fits(large, 1)) << "the largest single one";
  EXPECT_THAT(unseen.Add(half, 1, [](SegmentId) { return 1; }), IsEmpty()) << "not more than half";
  EXPECT_FALSE(unseen.Fits(large, 1));
  EXPECT_THAT(unseen.InItsWay(large, 1), ElementsAre(kHere));
  EXPECT_TRUE(unseen.Fits(half, 1));
  EXPECT_THAT(unseen.Add(half, 1, [](SegmentId) { return 2; }), ElementsAre(kHere));
  EXPECT_FALSE(unseen.Fits(half, 1));
  EXPECT_FALSE(unseen.Fits(PushOf({{kHere, {{7, 1e-9}}}}), 1));
  EXPECT_TRUE(unseen.Fits(PushOf({{kHere, {{8, 5}}}}), 1)) << "another row";
  EXPECT_TRUE(unseen.Fits(PushOf({{kHere, {{7, 5}}}}, TableId(4)), 1)) << "another table";
  EXPECT_TRUE(unseen.Seen(kHere, 1));
  EXPECT_TRUE(unseen.Fits(half, 1));
  EXPECT_FALSE(unseen.Seen(kHere, 1));
  EXPECT_FALSE(unseen.Seen(kThere, 9));
  EXPECT_TRUE(unseen.Seen(kHere, 5));
  EXPECT_TRUE(unseen.Fits(large, 1));
  EXPECT_EQ(unseen.rows(), 0u);
}

TEST(UnseenUpdatesTest, EachSegmentIsSeenByItself) {
  UnseenUpdates unseen;
  const WeighedPush push = PushOf({{kHere, {{7, 1}}}, {kThere, {{9, 1}}}});
  EXPECT_THAT(unseen.Add(push, 1, [](SegmentId s) { return s == kHere ? 4 : 6; }),
              ElementsAre(kHere, kThere));
  EXPECT_EQ(unseen.Last(kHere), 4u);
  EXPECT_EQ(unseen.Last(kThere), 6u);
  EXPECT_TRUE(unseen.Seen(kHere, 6));
  EXPECT_EQ(unseen.Last(kHere), 0u);
  EXPECT_THAT(unseen.InItsWay(push, 1), ElementsAre(kThere));
}

TEST(UnseenUpdatesTest, ItsMemoryIsBounded) {
  UnseenUpdates unseen(/*rows_max=*/4);
  const WeighedPush two = PushOf({{kHere, {{1, 0.1}, {2, 0.1}}}});
  const WeighedPush many = PushOf({{kThere, {{3, 0.1}, {4, 0.1}, {5, 0.1}, {6, 0.1}, {7, 0.1}}}});
  EXPECT_TRUE(unseen.Fits(many, 1)) << "alone";
  EXPECT_THAT(unseen.Add(two, 1, [](SegmentId) { return 1; }), IsEmpty());
  EXPECT_FALSE(unseen.Fits(many, 1));
  EXPECT_THAT(unseen.InItsWay(many, 1), ElementsAre(kHere));
  EXPECT_TRUE(unseen.Fits(two, 1));
  EXPECT_THAT(unseen.Add(two, 1, [](SegmentId) { return 2; }), ElementsAre(kHere)) << "little room is left";
  EXPECT_FALSE(unseen.Fits(PushOf({{kHere, {{9, 0.1}}}}), 1));
}

TEST(WeighTest, ARowCountsByItsMaxNormAndOnce) {
  const TableInfo table = testing::MakeTable(3, table::Add{}, /*dim=*/2);
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  std::map<uint64_t, double> norms;
  const WeighedPush push =
      Weigh(table, *testing::Grouped(table, {5, 6, 8, 9}, {-3, 2, 1, 0, 0, 0, 0, kNone}));
  for (const auto& [segment, rows] : push.segments) {
    for (const WeighedPush::Row& row : rows) {
      EXPECT_EQ(segment, table.placement.Of(row.key));
      norms[row.key] = row.norm;
    }
  }
  EXPECT_EQ(push.table, table.id);
  EXPECT_EQ(push.rows, 3u) << "zeros change nothing";
  EXPECT_EQ(norms[5], 3);
  EXPECT_EQ(norms[6], 1);
  EXPECT_EQ(norms[9], static_cast<double>(std::numeric_limits<float>::max()));
  const WeighedPush twice = Weigh(table, *testing::Grouped(table, {5, 5}, {-3, 2, 1, 0}));
  EXPECT_EQ(twice.rows, 1u);
  EXPECT_EQ(twice.segments.begin()->second[0].norm, 4);
}

TEST(WeighTest, RangesCountByRow) {
  const TableInfo table = testing::MakeRanged(3, /*rows=*/10, /*dim=*/1);
  const std::vector<float> values = {1, 0, -2};
  const auto batch = GroupRange(*testing::TheRoutes(), table.placement, 1, 4, 3, values, AllocateFresh);
  std::map<uint64_t, double> norms;
  for (const auto& [segment, rows] : Weigh(table, *batch).segments) {
    for (const WeighedPush::Row& row : rows) norms[row.key] = row.norm;
  }
  EXPECT_THAT(norms, ElementsAre(std::pair(4, 1.0), std::pair(6, 2.0)));
}

// Beside a list of all pushes.
TEST(UnseenUpdatesTest, CountsAsAListDoes) {
  struct Listed {
    SegmentId segment;
    PartNumber number;
    uint64_t key;
    double norm;
  };
  uint64_t waited = 0, fitted = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    world::SplitMix64 random(seed);
    const auto below = [&](uint64_t n) { return random.Next() % n; };
    const double bound = 8;
    UnseenUpdates unseen;
    std::vector<Listed> list;
    std::map<SegmentId, PartNumber> last;
    for (int step = 0; step < 400; ++step) {
      if (below(4) == 0) {
        const SegmentId segment(static_cast<uint32_t>(below(3)));
        const PartNumber upto = below(last[segment] + 1);
        unseen.Seen(segment, upto);
        std::erase_if(list, [&](const Listed& one) { return one.segment == segment && one.number <= upto; });
        continue;
      }
      std::map<SegmentId, std::vector<WeighedPush::Row>> segments;
      std::set<uint64_t> keys;
      for (uint64_t n = 1 + below(4); n > 0; --n) keys.insert(below(12));
      for (const uint64_t key : keys) {
        segments[SegmentId(static_cast<uint32_t>(key % 3))].push_back(
            {key, below(9) == 0 ? 20.0 : static_cast<double>(1 + below(4))});
      }
      const WeighedPush push = PushOf(segments);
      bool fits = true;
      for (const auto& [segment, rows] : segments) {
        for (const WeighedPush::Row& row : rows) {
          double sum = row.norm, largest = row.norm;
          for (const Listed& one : list) {
            if (one.key != row.key) continue;
            sum += one.norm;
            largest = std::max(largest, one.norm);
          }
          fits &= sum <= std::max(bound, largest);
        }
      }
      ASSERT_EQ(unseen.Fits(push, bound), fits) << "seed " << seed << ", step " << step;
      const std::vector<SegmentId> in_its_way = unseen.InItsWay(push, bound);
      ASSERT_EQ(in_its_way.empty(), fits);
      for (uint32_t s = 0; s < 3; ++s) {
        ASSERT_EQ(unseen.IsInItsWay(SegmentId(s), push, bound),
                  std::ranges::count(in_its_way, SegmentId(s)) > 0);
      }
      (fits ? fitted : waited)++;
      if (!fits) continue;
      unseen.Add(push, bound, [&](SegmentId segment) { return last[segment] + 1; });
      for (const auto& [segment, rows] : segments) {
        ++last[segment];
        for (const WeighedPush::Row& row : rows) list.push_back({segment, last[segment], row.key, row.norm});
      }
      ASSERT_EQ(unseen.rows(), list.size());
    }
  }
  EXPECT_GT(waited, 100u);
  EXPECT_GT(fitted, 100u);
}

}  // namespace
}  // namespace paceline::sdk
