#include "libs/engine/log_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "libs/world/random.h"

namespace paceline::engine {
namespace {

constexpr uint64_t kRun = LogRuns::kRunBytes;
constexpr SegmentId kA{1};
constexpr SegmentId kB{2};

TEST(LogRunsTest, TheOldestNeededIsThatOfTheSlowestSegment) {
  LogRuns runs;
  for (uint64_t group = 1; group <= 6; ++group) runs.Append(group, group % 2 ? kA : kB, Lsn(group), kRun);
  EXPECT_EQ(runs.OldestNeeded(7), 1u);
  runs.Cut(kA, Lsn(5));
  EXPECT_EQ(runs.OldestNeeded(7), 2u);
  runs.Cut(kB, Lsn(4));
  EXPECT_EQ(runs.OldestNeeded(7), 6u);
  runs.Cut(kB, Lsn(6));
  EXPECT_EQ(runs.OldestNeeded(7), 7u) << "nobody needs anything";
}

TEST(LogRunsTest, ASegmentThatBeganAnewNeedsNoOlderGroups) {
  LogRuns runs;
  runs.Append(1, kA, Lsn(100), 10);
  runs.Reset(kA, 2);
  runs.Append(2, kA, Lsn(3), 10);
  EXPECT_EQ(runs.OldestNeeded(3), 2u);
  runs.Cut(kA, Lsn(3));
  EXPECT_EQ(runs.OldestNeeded(3), 3u);
}

// Against every record kept one by one.
TEST(LogRunsTest, KeepsEveryNeededGroupAndFewOthers) {
  struct Kept {
    uint64_t group;
    SegmentId segment;
    Lsn lsn;
  };
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    world::SplitMix64 random(seed);
    LogRuns runs;
    std::vector<Kept> kept;
    std::map<SegmentId, Lsn> next;
    uint64_t group = 0;
    for (int step = 0; step < 500; ++step) {
      const SegmentId segment(static_cast<uint32_t>(world::Uniform(random, 4)));
      const uint64_t what = world::Uniform(random, 20);
      const auto of_segment = [&](Lsn upto) {
        std::erase_if(kept, [&](const Kept& k) { return k.segment == segment && k.lsn <= upto; });
      };
      if (what == 0) {
        ++group;
        of_segment(Lsn(UINT64_MAX));
        runs.Reset(segment, group);
        next[segment] = Lsn(world::Uniform(random, 1000));
      } else if (what < 4) {
        of_segment(next[segment]);
        runs.Cut(segment, next[segment]);
      } else {
        ++group;
        next[segment].v += 1;
        kept.push_back({.group = group, .segment = segment, .lsn = next[segment]});
        runs.Append(group, segment, next[segment], kRun / 3);
      }
      const uint64_t oldest = runs.OldestNeeded(group + 1);
      const uint64_t exact =
          kept.empty() ? group + 1 : std::ranges::min(kept, {}, [](const Kept& k) { return k.group; }).group;
      ASSERT_LE(oldest, exact) << "seed " << seed << ", step " << step;
      ASSERT_LE(exact - oldest, 30u) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace paceline::engine
