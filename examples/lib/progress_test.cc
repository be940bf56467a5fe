#include "examples/lib/progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  Progress Make(int width) {
    return Progress({.examples_per_epoch = 1000, .epochs = 2, .workers = 1, .width = width},
                    [this](absl::string_view text) { written_.emplace_back(text); });
  }
  static Totals At(uint64_t examples) {
    Totals totals;
    totals.started = 1;
    totals.examples = examples;
    totals.loss_sum = 0.5 * static_cast<double>(examples);
    totals.staleness_rows = {{0, 1}, {3, 1}};
    return totals;
  }
  static absl::Time Second(double s) { return absl::UnixEpoch() + absl::Seconds(s); }

  std::vector<std::string> written_;
};

TEST_F(ProgressTest, SaysEpochLossRateAndStaleness) {
  Progress progress = Make(0);
  progress.Show(At(0), Second(0));
  progress.Show(At(1500), Second(1));
  ASSERT_THAT(written_, SizeIs(2));
  EXPECT_EQ(written_[1],
            "epoch 2/2  75 %  loss 0.5000  1,500 examples/s  staleness 1.50 (max 3)  0 s left\n");
}

TEST_F(ProgressTest, LossAndRateAreThoseOfTheLastSeconds) {
  Progress progress = Make(0);
  for (int s = 0; s < 100; ++s) progress.Show(At(static_cast<uint64_t>(s)), Second(s));
  written_.clear();
  Totals late = At(299);
  late.loss_sum = 0.5 * 99 + 200 * 0.25;
  progress.Show(late, Second(101));
  ASSERT_THAT(written_, SizeIs(1));
  EXPECT_THAT(written_[0], HasSubstr("loss 0.2500  100 examples/s"));
}

TEST_F(ProgressTest, ATenthIsALineButNotMoreThanOneASecond) {
  Progress progress = Make(0);
  for (int i = 0; i <= 2000; i += 10) progress.Show(At(static_cast<uint64_t>(i)), Second(i / 1000.0));
  // At the start, after one second, and the end, two seconds after the start.
  ASSERT_THAT(written_, SizeIs(3));
  EXPECT_THAT(written_[1], HasSubstr(" 50 %"));
  EXPECT_THAT(written_[2], HasSubstr("100 %"));
}

TEST_F(ProgressTest, SlowTrainingsAreHeardOfEveryTenSeconds) {
  Progress progress = Make(0);
  for (int s = 0; s < 35; ++s) progress.Show(At(1), Second(s));
  EXPECT_THAT(written_, SizeIs(4));
}

TEST_F(ProgressTest, TheEndIsShownOnceAndAtOnce) {
  Progress progress = Make(0);
  progress.Show(At(1900), Second(0));
  progress.Show(At(2000), Second(0.1));
  progress.Show(At(2000), Second(0.2));
  progress.End();
  ASSERT_THAT(written_, SizeIs(2));
}

TEST_F(ProgressTest, SaysHowManyWorkersAreStillMissing) {
  Progress progress = Make(0);
  progress.Show(Totals(), Second(0));
  EXPECT_THAT(written_, ElementsAre("0 of 1 workers have started\n"));
}

TEST_F(ProgressTest, TheBeginningIsShownAtOnce) {
  Progress progress = Make(0);
  progress.Show(Totals(), Second(0));
  progress.Show(At(1), Second(0.1));
  progress.Show(At(2), Second(0.2));
  ASSERT_THAT(written_, SizeIs(2));
  EXPECT_THAT(written_[1], StartsWith("epoch 1/2"));
}

TEST_F(ProgressTest, ATerminalGetsOneLineAgainAndAgain) {
  Progress progress = Make(200);
  progress.Show(At(500), Second(0));
  progress.Show(At(1000), Second(0.1));
  progress.End();
  ASSERT_THAT(written_, SizeIs(3));
  EXPECT_THAT(written_[0], StartsWith("\r\x1b[K[#####...............] epoch 1/2"));
  EXPECT_THAT(written_[1], HasSubstr("5,000 examples/s"));
  EXPECT_EQ(written_[2], "\n");
}

TEST_F(ProgressTest, NeverFillsATerminalsLine) {
  for (const auto& [width, expected] :
       std::map<int, std::string>{{100, "[##........] epoch 1/2  25 %  staleness 1.50 (max 3)"},
                                  {47, "epoch 1/2  25 %  staleness 1.50 (max 3)"},
                                  {20, "epoch 1/2  25 %  st"}}) {
    Progress progress = Make(width);
    written_.clear();
    progress.Show(At(500), Second(0));
    EXPECT_THAT(written_, ElementsAre("\r\x1b[K" + expected)) << width;
  }
}

TEST_F(ProgressTest, TheTimeLeftFollowsFromTheRateSoFar) {
  Progress progress = Make(0);
  progress.Show(At(0), Second(0));
  progress.Show(At(500), Second(50));
  progress.Show(At(2000), Second(80));
  ASSERT_THAT(written_, SizeIs(3));
  EXPECT_THAT(written_[0], Not(HasSubstr("left")));
  EXPECT_THAT(written_[1], EndsWith("  2 min 30 s left\n"));
  EXPECT_THAT(written_[2], Not(HasSubstr("left"))) << "it is over";
}

TEST_F(ProgressTest, CallsPassesAndExamplesAsTheExampleDoes) {
  Progress progress({.examples_per_epoch = 10, .epochs = 2, .epoch = "sweep", .examples = "tokens"},
                    [this](absl::string_view text) { written_.emplace_back(text); });
  progress.Show(At(0), Second(0));
  progress.Show(At(10), Second(1));
  ASSERT_THAT(written_, SizeIs(2));
  EXPECT_THAT(written_[1], StartsWith("sweep 2/2"));
  EXPECT_THAT(written_[1], HasSubstr("10 tokens/s"));
}

TEST(ShortDurationTest, HasTwoUnitsAtMost) {
  EXPECT_EQ(ShortDuration(absl::Seconds(0.4)), "0 s");
  EXPECT_EQ(ShortDuration(absl::Seconds(59.4)), "59 s");
  EXPECT_EQ(ShortDuration(absl::Seconds(200)), "3 min 20 s");
  EXPECT_EQ(ShortDuration(absl::Minutes(125)), "2 h 5 min");
}

TEST(GroupedTest, Thousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
}

}  // namespace
}  // namespace paceline::examples
