// What a hand-over costs clients, in virtual time.
#include "tests/sim/pauses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;

class PausesTest : public ::testing::TestWithParam<Pauses::Setup> {};

// Links take up to 1 ms, and a segment changes hands by eight messages that follow each other. No timer, and
// no disk, may come on top of that.
TEST_P(PausesTest, NobodyWaitsForATimerOrADisk) {
  std::vector<Pauses::Swap> swaps;
  std::vector<absl::Duration> pulls;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Pauses::Setup setup = GetParam();
    setup.seed = seed;
    Pauses pauses(setup);
    std::vector<Pauses::Swap> ended = pauses.Run();
    ASSERT_THAT(ended, SizeIs(Ge(32u))) << "half of the segments go to the new shards, and come back";
    std::ranges::move(ended, std::back_inserter(swaps));
    ASSERT_TRUE(pauses.violations().empty()) << pauses.violations().front().what;
    pulls.insert(pulls.end(), pauses.pulls().begin(), pauses.pulls().end());
  }
  std::ranges::sort(pulls);
  std::printf("%s", Pauses::Describe(swaps).c_str());
  for (const double share : {0.5, 0.99, 0.999, 1.0}) {
    const size_t place = static_cast<size_t>(share * static_cast<double>(pulls.size() - 1));
    std::printf("  pulls: p%g %.2f\n", 100 * share, absl::ToDoubleMilliseconds(pulls[place]));
  }
  for (const Pauses::Swap& swap : swaps) {
    SCOPED_TRACE(absl::StrCat("segment ", swap.segment, ", epoch ", swap.epoch));
    EXPECT_TRUE(swap.linked) << "the client dials when it needs the stream";
    EXPECT_THAT(swap.serves - swap.asked, Le(absl::Milliseconds(8)));
    EXPECT_THAT(swap.longest, Le(absl::Milliseconds(12)));
  }
}

INSTANTIATE_TEST_SUITE_P(, PausesTest,
                         ::testing::Values(Pauses::Setup{.durable = true}, Pauses::Setup{.replicas = 1}));

}  // namespace
}  // namespace paceline::sim
