#include "sdk/cpp/src/session/wait_reports.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Time kBegin = absl::UnixEpoch();

TEST(WaitReportsTest, PeopleHearSoonAndThenEverMoreSeldom) {
  WaitReports reports;
  std::vector<int64_t> told;
  for (int second = 0; second <= 100; ++second) {
    const auto texts = reports.Due(kBegin + absl::Seconds(second), {{"pull", kBegin, "shard-1"}});
    if (!texts.empty()) told.push_back(second);
  }
  EXPECT_THAT(told, ElementsAre(3, 10, 30, 60, 90));
}

TEST(WaitReportsTest, TheTextNamesTheOperationTheTimeAndTheCause) {
  WaitReports reports;
  EXPECT_THAT(
      reports.Due(kBegin + absl::Milliseconds(4300), {{"pull of table 'w'", kBegin, "shard-1 at a:1"}}),
      ElementsAre("pull of table 'w' has waited 4s for shard-1 at a:1"));
}

TEST(WaitReportsTest, EachWaitHasItsOwnTime) {
  WaitReports reports;
  const Waiting old{"pull", kBegin, "a"};
  const Waiting young{"pull", kBegin + absl::Seconds(2), "b"};
  EXPECT_THAT(reports.Due(kBegin + absl::Seconds(3), {old, young}), ElementsAre("pull has waited 3s for a"));
  EXPECT_THAT(reports.Due(kBegin + absl::Seconds(5), {old, young}), ElementsAre("pull has waited 3s for b"));
  EXPECT_THAT(reports.Due(kBegin + absl::Seconds(6), {}), IsEmpty());
}

}  // namespace
}  // namespace paceline::sdk
