// Seeds in which nothing may break, and bugs that must be found.
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/batch.h"

namespace paceline::sim {
namespace {

using ::testing::IsEmpty;

// Fewer where each costs more: see CMakeLists.txt.
uint64_t Seeds() {
  uint64_t seeds = 300;
  const char* text = std::getenv("PACELINE_SIM_SEEDS_MAX");
  if (text != nullptr && !absl::SimpleAtoi(text, &seeds)) ADD_FAILURE() << "PACELINE_SIM_SEEDS_MAX: " << text;
  return seeds;
}

std::string Describe(uint64_t seed, const Outcome& outcome) {
  std::string text = absl::StrCat("paceline-sim --replay ", seed, " --trace");
  for (const Violation& violation : outcome.violations) {
    absl::StrAppend(&text, "\n  step ", violation.step, ": ", violation.invariant, ": ", violation.what);
  }
  return text;
}

TEST(Sim, TheInvariantsHold) {
  const uint64_t seeds = Seeds();
  const BatchOutcome batch = RunBatch(1, seeds, Bug::kNone, [](uint64_t seed, const Outcome& outcome) {
    EXPECT_TRUE(outcome.violations.empty()) << Describe(seed, outcome);
    return outcome.violations.empty();
  });
  std::printf("%lu seeds, %lu of full size, %lu parts, %lu steps\n", batch.seeds, batch.full_seeds,
              batch.parts, batch.steps);
  if (seeds < 300 || !batch.failed.empty()) return;
  EXPECT_THAT(batch.MarksMissed(), IsEmpty());
  EXPECT_THAT(batch.FaultsMissed(), IsEmpty());
  EXPECT_GE(batch.full_seeds, seeds * 9 / 10);
}

// 34 and 40 are seeds with snapshots of jobs.
constexpr uint64_t kSomeSeeds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 34, 40};

TEST(Sim, WithoutFaultsNothingIsLostOrMoved) {
  for (const uint64_t seed : kSomeSeeds) {
    const Outcome outcome = Cluster(Plan::WithoutFaults(seed)).Run();
    EXPECT_TRUE(outcome.violations.empty()) << Describe(seed, outcome);
    EXPECT_EQ(outcome.clocks, 51u) << "who finishes at clock 50 ends that one too";
    EXPECT_EQ(outcome.marks.Of("refused: push MOVED"), 0u);
    EXPECT_EQ(outcome.marks.Of("a session is evicted"), 0u);
    EXPECT_EQ(outcome.marks.Of("a job snapshot becomes a job") > 0, Plan::WithoutFaults(seed).snapshots > 0);
  }
}

TEST(Sim, TheSameSeedEndsOnTheSameHash) {
  for (const uint64_t seed : kSomeSeeds) {
    const Outcome once = RunSeed(seed);
    const Outcome again = RunSeed(seed);
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.steps, again.steps) << "seed " << seed;
  }
  EXPECT_NE(RunSeed(1).hash, RunSeed(2).hash);
}

// 4729: a log of which no follower had a record when its primary died. 16691: a replica was fenced for a
// takeover and died while the coordinator was paused. 1166: a shard that had just been started again dropped
// ticks, for it had no map yet, and sealed a clock by a later one that left a line out. 1224: an answer that
// a refresh had overtaken was kept as if nothing had changed since. 81: a learner knew of the next epoch
// before its image had come, refused the rest, and was never sent another one. 900000083: a shard was told to
// give up its folder after its drain had been cancelled, when it was about to be primary.
TEST(Sim, SeedsThatFailedOnce) {
  for (const uint64_t seed :
       {81,        4729,      16691,   1166,      1224,      201322,    311633,    3000224,   3010613,
        148594329, 314771531, 1000199, 1001318,   1010894,   1014315,   479670646, 1013431,   1014713,
        2000183,   4010144,   194,     800010115, 900000083, 900010252, 900011811, 920000844, 920001072})
    EXPECT_TRUE(RunSeed(seed).violations.empty()) << "seed " << seed;
}

class Planted : public ::testing::TestWithParam<NamedBug> {};

TEST_P(Planted, IsFoundByItsInvariant) {
  constexpr uint64_t kSeedsMax = 1500;  // some are found by one seed in several hundred
  const NamedBug& bug = GetParam();
  const auto until_found = [](uint64_t, const Outcome& outcome) { return outcome.violations.empty(); };
  ASSERT_LE(bug.seed, kSeedsMax);
  BatchOutcome batch = RunBatch(bug.seed, bug.seed, bug.bug, until_found);
  if (batch.failed.empty()) {
    std::printf("%s: no more by seed %lu, which is what bugs.h says\n", std::string(bug.name).c_str(),
                bug.seed);
    batch = RunBatch(1, kSeedsMax, bug.bug, until_found);
  }
  ASSERT_FALSE(batch.failed.empty()) << bug.name << " is not found in " << kSeedsMax << " seeds";
  const Violation& first = batch.failed.front().violations.front();
  std::printf("%s: seed %lu, step %lu: %s: %s\n", std::string(bug.name).c_str(), batch.failed.front().seed,
              first.step, first.invariant.c_str(), first.what.c_str());
  EXPECT_NE(bug.invariant.find(first.invariant), absl::string_view::npos) << "not by " << bug.invariant;
}

INSTANTIATE_TEST_SUITE_P(Bugs, Planted, ::testing::ValuesIn(kBugs),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace paceline::sim
